use super::{sha256, wasm_of};
use crate::error::PluginError;
use crate::limits::PluginSize;

/// Wrong files are tested through the chain, in `tests/runner/files.rs`; these tests cover unpacking alone.
#[test]
fn the_digest_is_of_the_file_as_shipped() {
    assert_eq!(
        sha256(b"abc"),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
    let plain = wasm_of(b"\0asm\x01\0\0\0", PluginSize::Standard).expect("Wasm");
    assert_eq!(plain, b"\0asm\x01\0\0\0");
}

#[test]
fn no_bytes_make_unpacking_panic() {
    for start in [
        &b"\x1f\x8b"[..],
        b"\x1f\x8b\x08",
        b"\0asm",
        b"\x7fELF",
        b"(",
        b" (module",
    ] {
        for length in 0..64 {
            let mut file = start.to_vec();
            file.extend((0..length).map(|byte: u8| byte.wrapping_mul(37)));
            let _ = wasm_of(&file, PluginSize::Standard);
        }
    }
}

#[test]
fn a_large_plugin_may_be_larger() {
    let mut file = b"\0asm\x01\0\0\0".to_vec();
    file.resize(5 << 20, 0);
    let error = wasm_of(&file, PluginSize::Standard).expect_err("too large");
    assert!(matches!(error, PluginError::TooLarge(_)), "{error}");
    assert_eq!(
        error.to_string(),
        "is larger than 4 MiB; for a language that brings its interpreter, allow it with `limits: { size: Large }` in chain.yaml"
    );
    wasm_of(&file, PluginSize::Large).expect("as large as it may be");
    file.resize((32 << 20) + 1, 0);
    let error = wasm_of(&file, PluginSize::Large).expect_err("too large");
    assert_eq!(error.to_string(), "is larger than 32 MiB");
}

use super::{sha256, unpack};

/// Wrong files are tested through the chain, in `tests/runner/files.rs`; these tests cover unpacking alone.
#[test]
fn the_digest_is_of_the_file_as_shipped() {
    assert_eq!(
        sha256(b"abc"),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
    let plain = unpack(b"\0asm\x01\0\0\0").expect("Wasm");
    assert_eq!(
        (plain.wasm.as_slice(), plain.shipped_bytes),
        (&b"\0asm\x01\0\0\0"[..], 8)
    );
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
            let _ = unpack(&file);
        }
    }
}

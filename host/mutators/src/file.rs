//! A plugin file as shipped: its digest, and the Wasm in it, plain or gzipped.

use std::io::Read;

use flate2::bufread::GzDecoder;
use podloom_mutation::show_bytes;
use sha2::{Digest, Sha256};

use crate::error::PluginError;
use crate::limits::PluginSize;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ELF: &[u8] = b"\x7fELF";
const WASM: &[u8] = b"\0asm";

/// What else an author can do about a plugin that is too large for this size.
pub(crate) fn or_large(size: PluginSize) -> &'static str {
    match size {
        PluginSize::Standard => {
            "; for a language that brings its interpreter, allow it with `limits: { size: Large }` in chain.yaml"
        }
        PluginSize::Large => "",
    }
}

/// The SHA-256 digest of a file as shipped, in hexadecimal.
pub fn sha256(shipped: &[u8]) -> String {
    hex(&Sha256::digest(shipped))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the Wasm of a plugin's file, which may be gzipped: that is decided by its content, not by its name.
///
/// # Errors
///
/// Fails if the file is too large, damaged, or not Wasm.
pub fn wasm_of(shipped: &[u8], size: PluginSize) -> Result<Vec<u8>, PluginError> {
    if shipped.is_empty() {
        return Err("is empty".into());
    }
    if shipped.len() > size.shipped_bytes() {
        return Err(too_large("is larger than", size.shipped_bytes(), size));
    }
    let wasm = if shipped.starts_with(GZIP) {
        inflate(shipped, size)?
    } else {
        shipped.to_vec()
    };
    if wasm.starts_with(ELF) {
        return Err("is precompiled native code, which is never loaded; ship the .wasm that it was compiled from".into());
    }
    let text = wasm.trim_ascii_start();
    if text.starts_with(b"(module") || text.starts_with(b"(component") {
        return Err("is WebAssembly as text; assemble it to .wasm first".into());
    }
    if !wasm.starts_with(WASM) {
        let start = wasm.get(..8).unwrap_or(&wasm);
        let start = start.escape_ascii();
        return Err(format!("is not WebAssembly; it begins with {start}").into());
    }
    Ok(wasm)
}

fn too_large(what: &str, most: usize, size: PluginSize) -> PluginError {
    PluginError::TooLarge(format!("{what} {}{}", show_bytes(most), or_large(size)))
}

/// Reads one byte past the limit, to distinguish a file of exactly that size from a longer one.
fn inflate(shipped: &[u8], size: PluginSize) -> Result<Vec<u8>, PluginError> {
    let mut wasm = Vec::new();
    let mut decoder = GzDecoder::new(shipped);
    let cap = size.wasm_bytes() as u64 + 1;
    (&mut decoder)
        .take(cap)
        .read_to_end(&mut wasm)
        .map_err(|error| {
            format!("is gzip, but cannot be decompressed: {error}; it is cut off or damaged, so build or copy it again")
        })?;
    if wasm.len() > size.wasm_bytes() {
        return Err(too_large(
            "decompresses to more than",
            size.wasm_bytes(),
            size,
        ));
    }
    match decoder.into_inner().len() {
        0 => Ok(wasm),
        rest => Err(format!(
            "has {} after the end of its gzip stream; compress it again",
            show_bytes(rest)
        )
        .into()),
    }
}

#[cfg(test)]
mod tests;

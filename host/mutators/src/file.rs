//! A plugin file as shipped: its digest, and the Wasm in it, plain or gzipped.

use std::io::Read;

use flate2::bufread::GzDecoder;
use podloom_mutation::show_bytes;
use sha2::{Digest, Sha256};

use crate::limits::PluginSize;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ELF: &[u8] = b"\x7fELF";
const WASM: &[u8] = b"\0asm";

/// Why a file is not a plugin. Each message continues a sentence that begins with the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// It is empty.
    #[error("is empty")]
    Empty,
    /// It is larger than a plugin may be.
    #[error("is larger than {}{}", show_bytes(.0.shipped_bytes()), or_large(*.0))]
    TooLarge(PluginSize),
    /// The gzip stream is damaged.
    #[error(
        "is gzip, but cannot be decompressed: {0}; it is cut off or damaged, so build or copy it again"
    )]
    Inflate(String),
    /// Something follows the gzip stream.
    #[error("has {} after the end of its gzip stream; compress it again", show_bytes(*.0))]
    TrailingBytes(usize),
    /// A gzip bomb.
    #[error("decompresses to more than {}{}", show_bytes(.0.wasm_bytes()), or_large(*.0))]
    InflatesTooFar(PluginSize),
    /// Native code.
    #[error(
        "is precompiled native code, which is never loaded; ship the .wasm that it was compiled from"
    )]
    Precompiled,
    /// WebAssembly as text.
    #[error("is WebAssembly as text; assemble it to .wasm first")]
    Text,
    /// Something else.
    #[error("is not WebAssembly; it begins with {0}")]
    NotWasm(String),
}

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
pub fn wasm_of(shipped: &[u8], size: PluginSize) -> Result<Vec<u8>, FileError> {
    if shipped.is_empty() {
        return Err(FileError::Empty);
    }
    if shipped.len() > size.shipped_bytes() {
        return Err(FileError::TooLarge(size));
    }
    let wasm = if shipped.starts_with(GZIP) {
        inflate(shipped, size)?
    } else {
        shipped.to_vec()
    };
    if wasm.starts_with(ELF) {
        return Err(FileError::Precompiled);
    }
    let text = wasm.trim_ascii_start();
    if text.starts_with(b"(module") || text.starts_with(b"(component") {
        return Err(FileError::Text);
    }
    if !wasm.starts_with(WASM) {
        let start = wasm.get(..8).unwrap_or(&wasm);
        return Err(FileError::NotWasm(start.escape_ascii().to_string()));
    }
    Ok(wasm)
}

/// Reads one byte past the limit, to distinguish a file of exactly that size from a longer one.
fn inflate(shipped: &[u8], size: PluginSize) -> Result<Vec<u8>, FileError> {
    let mut wasm = Vec::new();
    let mut decoder = GzDecoder::new(shipped);
    let cap = size.wasm_bytes() as u64 + 1;
    (&mut decoder)
        .take(cap)
        .read_to_end(&mut wasm)
        .map_err(|error| FileError::Inflate(error.to_string()))?;
    if wasm.len() > size.wasm_bytes() {
        return Err(FileError::InflatesTooFar(size));
    }
    match decoder.into_inner().len() {
        0 => Ok(wasm),
        rest => Err(FileError::TrailingBytes(rest)),
    }
}

#[cfg(test)]
mod tests;

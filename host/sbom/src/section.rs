//! The section of a program that holds its crates.
//!
//! Format: JSON, compressed with zlib, as <https://github.com/rust-secure-code/cargo-auditable> describes it in `PARSING.md`.

use std::io::{Read, Write};

use auditable_serde::VersionInfo;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

/// The name of the section.
pub const SECTION: &str = ".dep-v0";

/// How long the JSON may be. A thousand crates take 100 KB.
const MAX_BYTES: u64 = 4 << 20;

/// Why the content of a section cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// It is not compressed as it should be.
    #[error("the section {SECTION} is not compressed with zlib")]
    Compression(#[source] std::io::Error),
    /// It would take too much memory.
    #[error("the section {SECTION} is longer than {MAX_BYTES} bytes")]
    TooLong,
    /// It is no list of crates, or one with circles or two roots.
    #[error("the section {SECTION} holds no list of crates")]
    Content(#[source] serde_json::Error),
}

/// Makes the content of the section.
///
/// # Errors
///
/// Never: writing to memory does not fail. The type stays honest without a panic.
pub fn encode(crates: &VersionInfo) -> std::io::Result<Vec<u8>> {
    let json = serde_json::to_vec(crates)?;
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&json)?;
    encoder.finish()
}

/// Reads the content of the section, which may come from anybody.
///
/// # Errors
///
/// If it is not what [`encode`] or cargo-auditable write, or is too long.
pub fn decode(section: &[u8]) -> Result<VersionInfo, DecodeError> {
    let mut json = String::new();
    let read = ZlibDecoder::new(section)
        .take(MAX_BYTES + 1)
        .read_to_string(&mut json);
    let length = read.map_err(DecodeError::Compression)?;
    if length as u64 > MAX_BYTES {
        return Err(DecodeError::TooLong);
    }
    json.parse().map_err(DecodeError::Content)
}

/// Appends the section to a WebAssembly module or component, as a custom section.
#[must_use]
pub fn with_section(mut wasm: Vec<u8>, content: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    leb128(&mut body, SECTION.len());
    body.extend_from_slice(SECTION.as_bytes());
    body.extend_from_slice(content);
    // Section 0 is a custom one.
    wasm.push(0);
    leb128(&mut wasm, body.len());
    wasm.append(&mut body);
    wasm
}

/// Writes a length as WebAssembly does.
fn leb128(to: &mut Vec<u8>, mut value: usize) {
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            to.push(low & 0x7f);
            return;
        }
        to.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests;

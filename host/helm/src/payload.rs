//! How a payload is packed: base64 of gzip of JSON.

use std::io::{Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;

/// How many bytes the JSON of a payload may have. A Secret holds 1 MiB, which can decompress to a thousand times as much.
pub const SIZE_MAX: usize = 32 * 1024 * 1024;

/// How many values the JSON of a payload may have: each takes far more memory than the two bytes that it takes in the text.
/// Templates and manifests are one value each, so a large chart has a few thousand.
const VALUES_MAX: usize = 100_000;

/// What gzip begins with.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Why the payload of a record cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// It is not base64.
    #[error("the payload of the release is not base64")]
    Base64,
    /// It cannot be decompressed.
    #[error("the payload of the release cannot be decompressed")]
    Gzip {
        /// Why not.
        source: std::io::Error,
    },
    /// It is too large once it is decompressed.
    #[error("the payload of the release has more than {} MiB", SIZE_MAX / 1024 / 1024)]
    TooLarge,
    /// It has too many values.
    #[error("the payload of the release has more than {VALUES_MAX} values")]
    TooManyValues,
    /// It is no JSON, or is nested too deeply.
    #[error("the payload of the release is not JSON: line {line}, column {column}")]
    Json {
        /// The line of the mistake, from 1.
        line: usize,
        /// The column of the mistake, from 1.
        column: usize,
    },
    /// It is JSON, but no release: a field is missing or has another type.
    #[error("the payload of the release has no usable field {0}")]
    Field(&'static str),
    /// It is another release than that of its Secret, or another revision.
    #[error("the payload is not that of its Secret: {0} is another")]
    Mismatch(&'static str),
}

/// Returns how many bytes the JSON of a payload has, and keeps none of them: whoever reads many payloads at once can make room before.
///
/// # Errors
///
/// If it cannot be decompressed, or is too large.
pub fn unpacked_size(data: &[u8]) -> Result<usize, PayloadError> {
    let packed = decoded(data)?;
    let size = match packed.starts_with(&GZIP) {
        true => {
            let counted = std::io::copy(&mut bounded(&packed), &mut std::io::sink());
            let counted = counted.map_err(|source| PayloadError::Gzip { source })?;
            usize::try_from(counted).unwrap_or(usize::MAX)
        }
        false => packed.len(),
    };
    match size > SIZE_MAX {
        true => Err(PayloadError::TooLarge),
        false => Ok(size),
    }
}

fn decoded(data: &[u8]) -> Result<Vec<u8>, PayloadError> {
    // Go's decoder skips line breaks.
    let text: Vec<u8> = data
        .iter()
        .copied()
        .filter(|byte| !matches!(byte, b'\r' | b'\n'))
        .collect();
    STANDARD.decode(text).map_err(|_| PayloadError::Base64)
}

/// Decompresses up to one byte more than is allowed.
fn bounded(packed: &[u8]) -> impl Read {
    let most = u64::try_from(SIZE_MAX + 1).unwrap_or(u64::MAX);
    MultiGzDecoder::new(packed).take(most)
}

/// Unpacks a payload.
pub(crate) fn unpack(data: &[u8]) -> Result<Value, PayloadError> {
    let packed = decoded(data)?;
    let json = match packed.starts_with(&GZIP) {
        true => inflate(&packed)?,
        false => packed,
    };
    if json.len() > SIZE_MAX {
        return Err(PayloadError::TooLarge);
    }
    if values(&json) > VALUES_MAX {
        return Err(PayloadError::TooManyValues);
    }
    serde_json::from_slice(&json).map_err(|error| PayloadError::Json {
        line: error.line(),
        column: error.column(),
    })
}

fn inflate(packed: &[u8]) -> Result<Vec<u8>, PayloadError> {
    let mut json = Vec::new();
    bounded(packed)
        .read_to_end(&mut json)
        .map_err(|source| PayloadError::Gzip { source })?;
    Ok(json)
}

/// Returns how many values a JSON text has at most: they are separated by commas, except for the first in each list or object.
fn values(json: &[u8]) -> usize {
    let mut count = 1;
    let mut in_string = false;
    let mut escaped = false;
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => count += 1,
            _ => {}
        }
    }
    count
}

/// Packs a payload as Helm does.
pub(crate) fn pack(payload: &Value) -> std::io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    serde_json::to_writer(&mut packed, payload)?;
    packed.flush()?;
    Ok(STANDARD.encode(packed.finish()?).into_bytes())
}

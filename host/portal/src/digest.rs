//! Hashes, as they are written in names and annotations.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Returns the SHA-256 of some bytes, in hex.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns the SHA-256 of a value's canonical JSON: without spaces, and with the fields of objects in order of their names.
pub(super) fn of_json(value: &Value) -> String {
    // serde_json's maps are sorted.
    sha256(value.to_string().as_bytes())
}

/// Writes bytes in hex.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;

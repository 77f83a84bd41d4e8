//! How large a chain of plugins is as a ConfigMap.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// `kubectl apply` keeps the whole object in an annotation, and annotations can hold no more.
pub(super) const MAX_APPLIED: usize = 262_144;

/// What name, namespace and labels take, roundly.
const FRAME: usize = 512;

/// The bytes of a directory as kubectl remembers it once it is a ConfigMap.
pub(super) fn applied_bytes(bundle: &Path) -> Result<usize> {
    let mut total = FRAME;
    for entry in fs::read_dir(bundle).with_context(|| bundle.display().to_string())? {
        let path = entry?.path();
        let contents = fs::read(&path).with_context(|| path.display().to_string())?;
        let name = path.file_name().unwrap_or_default();
        total += entry_bytes(&name.to_string_lossy(), &contents);
    }
    Ok(total)
}

/// The bytes in a line of kustomize's base64; a line's end takes two more in JSON.
const LINE: usize = 70;

/// `"name":"value",` where a text is quoted and anything else is base64.
fn entry_bytes(name: &str, contents: &[u8]) -> usize {
    let value = match std::str::from_utf8(contents) {
        Ok(text) => serde_json::Value::from(text).to_string().len(),
        Err(_) => {
            let base64 = contents.len().div_ceil(3) * 4;
            base64 + base64.div_ceil(LINE) * 2 + 2
        }
    };
    name.len() + 4 + value
}

#[cfg(test)]
mod tests;

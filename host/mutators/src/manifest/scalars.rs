//! Scalars of the manifest, which are checked as they are parsed.

use std::time::Duration;

use podloom_mutation::{show_bytes, show_duration};
use podloom_syntax::names;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::limits::{
    DEFAULT_MEMORY, DEFAULT_TIMEOUT, MAX_MEMORY, MAX_TIMEOUT, MIN_MEMORY, MIN_TIMEOUT,
};

/// A DNS label.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(try_from = "String")]
#[schemars(extend("maxLength" = 63, "pattern" = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
pub(crate) struct PluginName(pub(crate) String);

impl TryFrom<String> for PluginName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        if is_dns_label(&name) {
            return Ok(Self(name));
        }
        Err(format!(
            "plugin name {name:?} is not a DNS label; use at most 63 of a-z, 0-9 and `-`, without `-` at either end"
        ))
    }
}

pub(crate) fn is_dns_label(name: &str) -> bool {
    names::dns_label(name).is_ok()
}

/// The name of a plugin file in the same directory.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[serde(try_from = "String")]
#[schemars(extend("maxLength" = 253, "pattern" = "^[-._a-zA-Z0-9]+\\.wasm(\\.gz)?$"))]
pub(crate) struct FileName(pub(crate) String);

impl TryFrom<String> for FileName {
    type Error = String;

    /// Allows the characters of a `ConfigMap` key, since a bundle can be a `ConfigMap`.
    fn try_from(name: String) -> Result<Self, String> {
        if name.contains(['/', '\\']) {
            return Err(format!(
                "file {name:?} is in another directory; put the file beside chain.yaml, and name it without a path"
            ));
        }
        let allowed = |char: char| char.is_ascii_alphanumeric() || "-._".contains(char);
        if name.len() > 253 || name.starts_with("..") || !name.chars().all(allowed) {
            return Err(format!(
                "file {name:?} is not a valid key of a ConfigMap; use letters, digits, `-`, `_` and `.`"
            ));
        }
        if !name.ends_with(".wasm") && !name.ends_with(".wasm.gz") {
            return Err(format!(
                "file {name:?} is not a plugin; its name must end in .wasm or .wasm.gz"
            ));
        }
        Ok(Self(name))
    }
}

/// A SHA-256 digest in lower-case hexadecimal.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(try_from = "String")]
#[schemars(extend("pattern" = "^(sha256:)?[0-9a-fA-F]{64}$"))]
pub(crate) struct Sha256(pub(crate) String);

impl TryFrom<String> for Sha256 {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let digits = text.strip_prefix("sha256:").unwrap_or(&text);
        if digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(Self(digits.to_ascii_lowercase()));
        }
        Err(format!(
            "sha256 {text:?} is not a digest; write 64 hexadecimal digits"
        ))
    }
}

/// A memory limit in bytes.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(extend("type" = ["string", "integer"], "pattern" = "^[0-9]+(k|M|G|Ki|Mi|Gi)?$"))]
#[schemars(rename = "Memory")]
pub(crate) struct MemoryLimit(pub(crate) usize);

impl Default for MemoryLimit {
    fn default() -> Self {
        Self(DEFAULT_MEMORY)
    }
}

impl TryFrom<String> for MemoryLimit {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let bytes = quantity(&text).ok_or_else(|| {
            format!(
                "memory {text:?} is not a quantity of bytes; write for example 16Mi, 1500Ki or 20M"
            )
        })?;
        if (MIN_MEMORY..=MAX_MEMORY).contains(&bytes) {
            return Ok(Self(bytes));
        }
        let (least, most) = (show_bytes(MIN_MEMORY), show_bytes(MAX_MEMORY));
        Err(format!(
            "memory {text:?} is out of range; use {least} to {most}"
        ))
    }
}

fn quantity(text: &str) -> Option<usize> {
    let digits = text.trim_end_matches(|char: char| !char.is_ascii_digit());
    let unit: usize = match text.get(digits.len()..)? {
        "" => 1,
        "k" => 1000,
        "M" => 1000 * 1000,
        "G" => 1000 * 1000 * 1000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return None,
    };
    unsigned(digits)?.checked_mul(unit)
}

/// Unlike `str::parse`, accepts no sign.
fn unsigned(digits: &str) -> Option<usize> {
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        digits.parse().ok()
    } else {
        None
    }
}

/// A time limit.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(extend("pattern" = "^[0-9]+(ms|s)$"))]
#[schemars(rename = "Timeout")]
pub(crate) struct TimeLimit(pub(crate) Duration);

impl Default for TimeLimit {
    fn default() -> Self {
        Self(DEFAULT_TIMEOUT)
    }
}

impl TryFrom<String> for TimeLimit {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let duration = duration(&text).ok_or_else(|| {
            format!("timeout {text:?} is not a duration; write for example 250ms or 1s")
        })?;
        if (MIN_TIMEOUT..=MAX_TIMEOUT).contains(&duration) {
            return Ok(Self(duration));
        }
        let (least, most) = (show_duration(MIN_TIMEOUT), show_duration(MAX_TIMEOUT));
        Err(format!(
            "timeout {text:?} is out of range; use {least} to {most}"
        ))
    }
}

fn duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|char: char| !char.is_ascii_digit());
    let number = u64::try_from(unsigned(digits)?).ok()?;
    match text.get(digits.len()..)? {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        _ => None,
    }
}

//! `chain.yaml`: which plugins run, in which order, with which grants, configuration and limits.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use podloom_mutation::{show_bytes, show_duration};
use podloom_syntax::names;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use serde_saphyr::{MessageFormatter, SnippetMode, Spanned, UserMessageFormatter};

use crate::limits::{
    CallLimits, DEFAULT_MEMORY, DEFAULT_TIMEOUT, MANIFEST_BYTES, MAX_MEMORY, MAX_TIMEOUT,
    MIN_MEMORY, MIN_TIMEOUT, PLUGINS, PluginSize,
};
use crate::matching::Match;
use crate::text::one_line;

/// The manifest's file name in a bundle.
pub const MANIFEST: &str = "chain.yaml";

/// A chain of plugins that every pod passes through.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "MutatorChain")]
pub(crate) struct Manifest {
    /// Version of this format.
    #[serde(rename = "apiVersion")]
    _api_version: ApiVersion,
    /// Kind of this document.
    #[serde(rename = "kind")]
    _kind: ManifestKind,
    /// List the plugins in the order in which they run, at most 256. Write `[]` for a chain without plugins.
    #[schemars(length(max = PLUGINS))]
    pub(crate) plugins: Vec<PluginEntry>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
enum ApiVersion {
    #[serde(rename = "podloom.dev/v1alpha1")]
    V1Alpha1,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[schemars(rename = "Kind")]
enum ManifestKind {
    MutatorChain,
}

/// One plugin of the chain.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Entry")]
pub(crate) struct PluginEntry {
    /// Name the plugin within this chain: a unique DNS label. A file may be listed several times under different names.
    #[schemars(with = "PluginName")]
    pub(crate) name: Spanned<PluginName>,
    /// Name the plugin's file beside the manifest: .wasm or .wasm.gz.
    pub(crate) file: FileName,
    /// Pin the file's content: SHA-256 of the file as shipped, in hexadecimal.
    #[serde(default)]
    pub(crate) sha256: Option<Sha256>,
    /// List the paths that the plugin may write, and therefore read. By default none.
    #[serde(default)]
    pub(crate) allow: Vec<String>,
    /// List further paths that the plugin may read. By default those in its description. "" is the whole pod.
    #[serde(default)]
    pub(crate) read: Option<Vec<String>>,
    /// Configure the plugin, according to its own schema. By default empty.
    #[serde(default)]
    pub(crate) config: Option<Map<String, Value>>,
    /// Choose the pods that the plugin runs on. By default every pod.
    #[serde(default, rename = "match")]
    pub(crate) matches: Match,
    /// Choose what happens to a pod when the plugin crashes, exceeds a limit or reports a failure. By default Fail.
    #[serde(default)]
    pub(crate) failure_policy: FailurePolicy,
    /// Let ChainExceptions of a namespace keep the plugin from its pods, or from denying them, for at most this time from their creation
    /// on, such as 720h. By default none holds.
    #[serde(default)]
    pub(crate) longest_exception: Option<LongestException>,
    /// Set whether a second run on its own result writes nothing, which is checked when the chain is loaded. By default true.
    #[serde(default = "yes")]
    pub(crate) idempotent: bool,
    /// Limit the memory and time of one call, and the size of the plugin.
    #[serde(default)]
    pub(crate) limits: ManifestLimits,
}

/// What happens to a pod when a plugin fails. A denial always rejects the pod.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The pod is rejected.
    #[default]
    Fail,
    /// The pod passes on as if the plugin were not in the chain.
    Ignore,
}

impl FailurePolicy {
    /// The policy as the manifest writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fail => "Fail",
            Self::Ignore => "Ignore",
        }
    }
}

/// The memory and time of one call, and the size of the plugin.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Limits")]
pub(crate) struct ManifestLimits {
    /// Limit the plugin's memory, as a quantity of bytes from 1Mi to 256Mi. By default 16Mi.
    #[serde(default)]
    memory: MemoryLimit,
    /// Limit the time of one call, from 10ms to 10s. By default 1s.
    #[serde(default)]
    timeout: TimeLimit,
    /// Choose how large the plugin's file and its code may be. By default Standard.
    #[serde(default)]
    pub(crate) size: PluginSize,
}

impl ManifestLimits {
    pub(crate) fn per_call(self) -> CallLimits {
        CallLimits {
            memory: self.memory.0,
            timeout: self.timeout.0,
        }
    }
}

fn yes() -> bool {
    true
}

impl PluginEntry {
    /// The line of the manifest with the plugin's name.
    pub(crate) fn line(&self) -> u64 {
        self.name.referenced.line()
    }
}

impl Manifest {
    /// Parses a manifest: a single document without unknown fields or duplicate names.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > MANIFEST_BYTES {
            return Err(too_large());
        }
        let Ok(text) = std::str::from_utf8(bytes) else {
            return Err(format!("{MANIFEST} is not UTF-8 text; save it as UTF-8"));
        };
        // Configurations contain parts of pods, so they are parsed as kubectl does: `0644` is octal, an unquoted `yes` is true.
        let options = serde_saphyr::options! { strict_booleans: false, legacy_octal_numbers: true };
        let mut documents: Vec<Option<Self>> =
            serde_saphyr::from_multiple_with_options(text, options)
                .map_err(|error| parse_error(&error))?;
        let document = documents.pop().flatten();
        if !documents.is_empty() {
            return Err(format!(
                "{MANIFEST}: the file must have a single document, but has several; remove the others"
            ));
        }
        let Some(manifest) = document else {
            return Err(format!(
                "{MANIFEST} is empty; for a chain without plugins write apiVersion, kind and `plugins: []`"
            ));
        };
        if manifest.plugins.len() > PLUGINS {
            return Err(format!("{MANIFEST} lists more than {PLUGINS} plugins"));
        }
        manifest.check_names()?;
        Ok(manifest)
    }

    fn check_names(&self) -> Result<(), String> {
        for (index, entry) in self.plugins.iter().enumerate() {
            let name = &entry.name.value;
            let mut earlier = self.plugins.iter().take(index);
            if let Some(first) = earlier.find(|earlier| earlier.name.value == *name) {
                return Err(format!(
                    "{MANIFEST}:{}: plugin {} is listed twice, first on line {}; give one of them another name",
                    entry.line(),
                    name.0,
                    first.line()
                ));
            }
        }
        Ok(())
    }
}

pub(crate) fn too_large() -> String {
    format!("{MANIFEST} is larger than {}", show_bytes(MANIFEST_BYTES))
}

fn parse_error(error: &serde_saphyr::Error) -> String {
    let render =
        serde_saphyr::render_options! { formatter: &PlainMessages, snippets: SnippetMode::Off };
    let message = error.render_with_options(render);
    let Some(at) = error.location().filter(|at| at.line() > 0) else {
        return format!("{MANIFEST}: {}", one_line(&message, 1000));
    };
    let (line, column) = (at.line(), at.column());
    let suffix = format!(" at line {line}, column {column}");
    let message = message.strip_suffix(&suffix).unwrap_or(&message);
    format!("{MANIFEST}:{line}:{column}: {}", one_line(message, 1000))
}

/// Words the errors of the YAML parser for people who write manifests.
struct PlainMessages;

impl MessageFormatter for PlainMessages {
    fn format_message<'a>(&self, error: &'a serde_saphyr::Error) -> Cow<'a, str> {
        use serde_saphyr::Error;
        Cow::Borrowed(match error {
            Error::RecursiveReferencesRequireWeakTypes { .. } => {
                "an alias contains itself; write the value out in place of the alias"
            }
            Error::Unexpected { expected, .. } if *expected == "sequence start" => {
                "expected a list"
            }
            Error::Unexpected { expected, .. } if *expected == "mapping start" => {
                "expected an object"
            }
            Error::InvalidScalar { ty: "boolean", .. } => "expected true or false",
            Error::NonFiniteFloat { value, .. } => {
                return Cow::Owned(format!(
                    "{value} is no number in JSON; if it is text, write \"{value}\""
                ));
            }
            _ => return UserMessageFormatter.format_message(error),
        })
    }
}

/// The JSON Schema of `chain.yaml`, for editors and for validation before a manifest is shipped.
pub fn manifest_schema() -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12();
    let mut schema = settings.into_generator().into_root_schema_for::<Manifest>();
    schema.insert("$id".to_owned(), "urn:podloom:chain:v1alpha1".into());
    schema.to_value()
}

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
    let are_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    are_digits.then(|| digits.parse().ok())?
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

/// How long an exception may last.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", extend("pattern" = "^[1-9][0-9]{0,4}h$"))]
pub(crate) struct LongestException(pub(crate) Duration);

impl TryFrom<String> for LongestException {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let hours = text.strip_suffix('h');
        let hours = hours.filter(|it| it.len() <= 5 && it.bytes().all(|it| it.is_ascii_digit()));
        match hours.and_then(|it| it.parse().ok()) {
            Some(hours) if hours > 0 => Ok(Self(Duration::from_hours(hours))),
            _ => Err(format!(
                "longestException {text:?} is not a number of hours from 1h to 99999h; write for example 720h"
            )),
        }
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

/// The lines of all values of a YAML document, for messages about values that were parsed without their positions.
pub(crate) struct Lines(Option<Spanned<Node>>);

enum Node {
    Scalar,
    List(Vec<Spanned<Self>>),
    Map(Vec<(String, Spanned<Self>)>),
}

impl Lines {
    /// Reads a text; what cannot be read has no lines.
    pub(crate) fn of(text: &str) -> Self {
        Self(serde_saphyr::from_str(text).ok())
    }

    /// The line of the value at a JSON Pointer, or of the last value on the way that exists; 0 if nothing is known.
    pub(crate) fn line(&self, pointer: &str) -> u64 {
        let Some(mut here) = self.0.as_ref() else {
            return 0;
        };
        for raw in pointer.split('/').skip(1) {
            let segment = raw.replace("~1", "/").replace("~0", "~");
            let next = match &here.value {
                Node::Scalar => None,
                Node::List(items) => segment.parse().ok().and_then(|at: usize| items.get(at)),
                Node::Map(fields) => {
                    let field = fields.iter().find(|(key, _)| *key == segment);
                    field.map(|(_, value)| value)
                }
            };
            match next {
                Some(next) => here = next,
                None => break,
            }
        }
        here.referenced.line()
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self::Scalar)
    }
}

/// Any node visits a value.
impl<'de> Visitor<'de> for Node {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(Self::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(Self::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(Self::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(Self::Scalar)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(Self::Scalar)
    }

    fn visit_none<E>(self) -> Result<Self, E> {
        Ok(Self::Scalar)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Self::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        let mut fields = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            fields.push((key, map.next_value()?));
        }
        Ok(Self::Map(fields))
    }
}

#[cfg(test)]
mod tests;

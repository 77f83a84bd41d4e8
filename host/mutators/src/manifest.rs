//! `chain.yaml`: which plugins run, in which order, with which grants, configuration and limits.

mod lines;
mod scalars;

use std::borrow::Cow;

use podloom_mutation::show_bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use serde_saphyr::{MessageFormatter, SnippetMode, Spanned, UserMessageFormatter};

pub(crate) use self::lines::Lines;
pub(crate) use self::scalars::{
    FileName, MemoryLimit, PluginName, Sha256, TimeLimit, is_dns_label,
};
use crate::limits::{CallLimits, MANIFEST_BYTES, PLUGINS, PluginSize};
use crate::matching::Match;
use crate::text::one_line;

/// The manifest's file name in a bundle.
pub const MANIFEST: &str = "chain.yaml";

/// What is wrong with a manifest, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// It is too large.
    #[error("{MANIFEST} is larger than {}", show_bytes(MANIFEST_BYTES))]
    TooLarge,
    /// It is not text.
    #[error("{MANIFEST} is not UTF-8 text; save it as UTF-8")]
    NotUtf8,
    /// It has nothing but comments.
    #[error(
        "{MANIFEST} is empty; for a chain without plugins write apiVersion, kind and `plugins: []`"
    )]
    Empty,
    /// It is not YAML, or a field is wrong.
    #[error("{MANIFEST}{}: {message}", at(.line, .column))]
    Parse {
        /// What is wrong.
        message: String,
        /// Line, from 1; 0 if unknown.
        line: u64,
        /// Column, from 1.
        column: u64,
    },
    /// It lists too many plugins.
    #[error("{MANIFEST} lists more than {PLUGINS} plugins")]
    TooManyPlugins,
    /// Two plugins have the same name.
    #[error(
        "{MANIFEST}:{line}: plugin {name} is listed twice, first on line {first}; give one of them another name"
    )]
    DuplicateName {
        /// The name.
        name: String,
        /// The line of the second one.
        line: u64,
        /// The line of the first one.
        first: u64,
    },
}

fn at(line: &u64, column: &u64) -> String {
    if *line == 0 {
        String::new()
    } else {
        format!(":{line}:{column}")
    }
}

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
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        if bytes.len() > MANIFEST_BYTES {
            return Err(ManifestError::TooLarge);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| ManifestError::NotUtf8)?;
        // Configurations contain parts of pods, so they are parsed as kubectl does: `0644` is octal, an unquoted `yes` is true.
        let options = serde_saphyr::options! { strict_booleans: false, legacy_octal_numbers: true };
        let mut documents: Vec<Option<Self>> =
            serde_saphyr::from_multiple_with_options(text, options)
                .map_err(|error| parse_error(&error))?;
        let document = documents.pop().flatten();
        if !documents.is_empty() {
            return Err(ManifestError::Parse {
                message: "the file must have a single document, but has several; remove the others"
                    .to_owned(),
                line: 0,
                column: 0,
            });
        }
        let manifest = document.ok_or(ManifestError::Empty)?;
        if manifest.plugins.len() > PLUGINS {
            return Err(ManifestError::TooManyPlugins);
        }
        manifest.check_names()?;
        Ok(manifest)
    }

    fn check_names(&self) -> Result<(), ManifestError> {
        for (index, entry) in self.plugins.iter().enumerate() {
            let name = &entry.name.value;
            let first = self
                .plugins
                .iter()
                .take(index)
                .find(|earlier| earlier.name.value == *name);
            if let Some(first) = first {
                let name = name.0.clone();
                return Err(ManifestError::DuplicateName {
                    name,
                    line: entry.line(),
                    first: first.line(),
                });
            }
        }
        Ok(())
    }
}

fn parse_error(error: &serde_saphyr::Error) -> ManifestError {
    let location = error.location();
    let render =
        serde_saphyr::render_options! { formatter: &PlainMessages, snippets: SnippetMode::Off };
    let message = error.render_with_options(render);
    let (line, column) = location.map_or((0, 0), |location| (location.line(), location.column()));
    let suffix = format!(" at line {line}, column {column}");
    let message = message.strip_suffix(&suffix).unwrap_or(&message);
    ManifestError::Parse {
        message: one_line(message, 1000),
        line,
        column,
    }
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
    schemars::generate::SchemaSettings::draft2020_12()
        .into_generator()
        .into_root_schema_for::<Manifest>()
        .to_value()
}

#[cfg(test)]
mod tests;

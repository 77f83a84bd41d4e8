//! `chain.yaml`: which plugins run, in which order, with which grants, configuration and limits.

mod scalars;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use serde_saphyr::{SnippetMode, Spanned, UserMessageFormatter};

pub(crate) use self::scalars::{
    FileName, MemoryLimit, PluginName, Sha256, TimeLimit, is_dns_label,
};
use crate::limits::{CallLimits, MANIFEST_BYTES, PLUGINS, show_bytes};
use crate::matching::Match;
use crate::text::one_line;

/// The manifest's file name in a bundle.
pub const MANIFEST: &str = "chain.yaml";

/// What is wrong with a manifest, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// More text than a manifest may have.
    #[error("{MANIFEST} is larger than {}", show_bytes(MANIFEST_BYTES))]
    TooLarge,
    /// Not text.
    #[error("{MANIFEST} is not UTF-8")]
    NotUtf8,
    /// Nothing but comments.
    #[error(
        "{MANIFEST} is empty; a chain without plugins is written `plugins: []`, with apiVersion and kind"
    )]
    Empty,
    /// Not YAML, or not of a manifest's shape.
    #[error("{MANIFEST}{}: {message}", at(.line, .column))]
    Parse {
        /// What is wrong.
        message: String,
        /// Line, from 1; 0 if unknown.
        line: u64,
        /// Column, from 1.
        column: u64,
    },
    /// More plugins than a chain may have.
    #[error("{MANIFEST} lists more than {PLUGINS} plugins")]
    TooManyPlugins,
    /// Two plugins of one name.
    #[error(
        "{MANIFEST}:{line}: plugin {name} is listed twice, first in line {first}; give one of them another name"
    )]
    DuplicateName {
        /// The name.
        name: String,
        /// Where it comes a second time.
        line: u64,
        /// Where it comes first.
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

/// A chain of plugins through which every pod passes.
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
    /// The plugins in the order in which they run, at most 256. Write `[]` for a chain without plugins.
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
    /// Name the plugin within this chain: a DNS label, unique. One file may be listed several times under different names.
    #[schemars(with = "PluginName")]
    pub(crate) name: Spanned<PluginName>,
    /// Name the plugin's file beside the manifest: .wasm or .wasm.gz.
    pub(crate) file: FileName,
    /// Pin the file's content: SHA-256 of the file as shipped, in hexadecimal.
    #[serde(default)]
    pub(crate) sha256: Option<Sha256>,
    /// List the paths that the plugin may write, and so read. By default none.
    #[serde(default)]
    pub(crate) allow: Vec<String>,
    /// List the paths that the plugin may read besides. By default what it says that it reads. "" is the whole pod.
    #[serde(default)]
    pub(crate) read: Option<Vec<String>>,
    /// Configure the plugin; its own schema says how. By default empty.
    #[serde(default)]
    pub(crate) config: Option<Map<String, Value>>,
    /// Choose the pods that the plugin sees. By default every pod.
    #[serde(default, rename = "match")]
    pub(crate) matches: Match,
    /// Choose what happens to a pod when the plugin crashes, exceeds a limit or says that it failed. By default Fail.
    #[serde(default)]
    pub(crate) failure_policy: FailurePolicy,
    /// Say whether a second run over its own result writes nothing; it is tried when the chain is loaded. By default true.
    #[serde(default = "yes")]
    pub(crate) idempotent: bool,
    /// Limit what one call may use.
    #[serde(default)]
    pub(crate) limits: ManifestLimits,
}

/// What becomes of a pod when a plugin fails. A denial always denies.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The pod is refused.
    #[default]
    Fail,
    /// The pod goes on as if the plugin were not in the chain.
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

/// What one call may use.
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
    /// The line of the manifest on which the plugin's name stands.
    pub(crate) fn line(&self) -> u64 {
        self.name.referenced.line()
    }
}

impl Manifest {
    /// Reads a manifest: one document, no unknown field, no name twice.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        if bytes.len() > MANIFEST_BYTES {
            return Err(ManifestError::TooLarge);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| ManifestError::NotUtf8)?;
        // Configurations hold parts of pods, so they are read as every manifest is: `0644` is octal, a bare `yes` is true.
        let options = serde_saphyr::options! { strict_booleans: false, legacy_octal_numbers: true };
        let mut documents: Vec<Option<Self>> =
            serde_saphyr::from_multiple_with_options(text, options)
                .map_err(|error| parse_error(&error))?;
        let document = documents.pop().flatten();
        if !documents.is_empty() {
            return Err(ManifestError::Parse {
                message: "a manifest is one document, and another one follows".to_owned(),
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
    let render = serde_saphyr::render_options! { formatter: &UserMessageFormatter, snippets: SnippetMode::Off };
    let message = error.render_with_options(render);
    let (line, column) = location.map_or((0, 0), |location| (location.line(), location.column()));
    let suffix = format!(" at line {line}, column {column}");
    let mut message = message.strip_suffix(&suffix).unwrap_or(&message).to_owned();
    if message == "invalid boolean" {
        message.push_str(" (true or false expected)");
    }
    ManifestError::Parse {
        message: one_line(&message, 1000),
        line,
        column,
    }
}

/// JSON Schema of `chain.yaml`, for editors and for checking a manifest before it is shipped.
pub fn manifest_schema() -> Value {
    schemars::generate::SchemaSettings::draft2020_12()
        .into_generator()
        .into_root_schema_for::<Manifest>()
        .to_value()
}

#[cfg(test)]
mod tests;

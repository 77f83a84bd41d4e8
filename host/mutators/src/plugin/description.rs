//! Checks what a plugin says of itself, and its configuration.

use std::fmt;
use std::sync::Arc;

use podloom_config_schema::{Problem, check as check_schema};
use podloom_mutation::{CallFailure, show_bytes};
use podloom_pod_path::Grants;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::contract;
use crate::limits::{
    CONFIG_COMPLAINTS, NEEDED_PATH_BYTES, NEEDED_PATHS, NEEDED_SEGMENTS, SCHEMA_BYTES,
    SUMMARY_BYTES,
};
use crate::manifest::is_dns_label;
use crate::sandbox::{ConfigVerdict, Sandbox};
use crate::text::{is_plain, list, one_line};

/// A plugin's description of itself with its present configuration.
#[derive(Clone, Debug)]
pub struct Description {
    /// The name that its author gave it; in a chain it may have another one.
    pub name: String,
    /// Its version.
    pub version: String,
    /// One sentence for people.
    pub summary: String,
    /// JSON Schema of its configuration; none if it takes none. Kept as text, since parsed it takes up to 100 times the memory.
    pub config_schema: Option<Arc<str>>,
    /// The paths that it needs to read, besides those that it writes.
    pub reads: Vec<String>,
    /// The paths that it needs to write.
    pub writes: Vec<String>,
    pub(super) needed_reads: Grants,
    pub(super) needed_writes: Grants,
}

/// What is wrong with a description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    /// The name is not a DNS label.
    #[error("its name {0:?} is not a DNS label; use at most 63 of a-z, 0-9 and `-`")]
    Name(String),
    /// The version is not a semantic version.
    #[error("its version {0:?} is not a semantic version; write for example 1.2.3")]
    Version(String),
    /// The summary is too long.
    #[error("its summary is longer than {}", show_bytes(SUMMARY_BYTES))]
    Summary,
    /// The schema is too long.
    #[error("its configuration schema is larger than {}", show_bytes(SCHEMA_BYTES))]
    LongSchema,
    /// The schema depends on the configuration.
    #[error(
        "its configuration schema differs between configurations; return the same schema for all"
    )]
    ChangingSchema,
    /// The schema is not JSON.
    #[error("its configuration schema is not JSON: {0}")]
    Schema(String),
    /// There are more paths, or longer ones, than anyone could review.
    #[error(
        "it needs more than {NEEDED_PATHS} paths, or one longer than {}",
        show_bytes(NEEDED_PATH_BYTES)
    )]
    Paths,
    /// The paths would take too much memory.
    #[error("the paths that it needs have more than {NEEDED_SEGMENTS} segments in total")]
    Segments,
    /// A path does not look like what it is.
    #[error("the path {0} contains invisible characters")]
    HiddenPath(String),
    /// A path that it needs to read is invalid.
    #[error("a path in `reads` is invalid: {0}")]
    Reads(String),
    /// A path that it needs to write is invalid.
    #[error("a path in `writes` is invalid: {0}")]
    Writes(String),
}

impl Description {
    pub(super) fn check(said: contract::Description) -> Result<Self, DescriptionError> {
        if !is_dns_label(&said.name) {
            return Err(DescriptionError::Name(one_line(&said.name, 100)));
        }
        if !is_version(&said.version) {
            return Err(DescriptionError::Version(one_line(&said.version, 100)));
        }
        if said.summary.len() > SUMMARY_BYTES {
            return Err(DescriptionError::Summary);
        }
        for paths in [&said.reads, &said.writes] {
            if paths.len() > NEEDED_PATHS || paths.iter().any(|path| path.len() > NEEDED_PATH_BYTES)
            {
                return Err(DescriptionError::Paths);
            }
            if let Some(path) = paths.iter().find(|path| !is_plain(path)) {
                return Err(DescriptionError::HiddenPath(one_line(path, 200)));
            }
        }
        let paths = said.reads.iter().chain(&said.writes);
        let segments: usize = paths.map(|path| path.matches('/').count()).sum();
        if segments > NEEDED_SEGMENTS {
            return Err(DescriptionError::Segments);
        }
        let needed_reads = Grants::parse(&said.reads)
            .map_err(|error| DescriptionError::Reads(one_line(&error.to_string(), 500)))?;
        let needed_writes = Grants::parse_writes(&said.writes)
            .map_err(|error| DescriptionError::Writes(one_line(&error.to_string(), 500)))?;
        Ok(Self {
            config_schema: schema(&said.config_schema)?,
            summary: one_line(&said.summary, SUMMARY_BYTES),
            name: said.name,
            version: said.version,
            reads: said.reads,
            writes: said.writes,
            needed_reads,
            needed_writes,
        })
    }
}

fn schema(text: &str) -> Result<Option<Arc<str>>, DescriptionError> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    if text.len() > SCHEMA_BYTES {
        return Err(DescriptionError::LongSchema);
    }
    serde_json::from_str::<IgnoredAny>(text)
        .map_err(|error| DescriptionError::Schema(one_line(&error.to_string(), 200)))?;
    Ok(Some(text.into()))
}

/// Whether a version has three numbers and optionally a pre-release or build suffix. Stricter parsing is not needed.
fn is_version(version: &str) -> bool {
    let (core, rest) = version.split_at(version.find(['-', '+']).unwrap_or(version.len()));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    version.len() <= 64
        && core.split('.').count() == 3
        && core.split('.').all(is_number)
        && rest.len() != 1
        && rest
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-+.".contains(&byte))
}

/// What is wrong with a configuration. Each message continues a sentence that begins with the plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The plugin takes none.
    #[error("takes no configuration, but chain.yaml sets {0}; remove `config`")]
    Unwanted(String),
    /// The schema is invalid, which is a bug of the plugin.
    #[error("has an invalid configuration schema, which its author must fix: {0}")]
    Schema(String),
    /// Checking it would take too long.
    #[error(
        "has a configuration that takes too many steps to check against its schema; use fewer or shorter items, or ask the author for a simpler schema"
    )]
    TooLarge,
    /// It does not match the schema, or the plugin rejects it.
    #[error("has an invalid configuration: {}", sentences(.0))]
    Rejected(Vec<ConfigComplaint>),
    /// The function `validate-config` failed.
    #[error("could not check its configuration: {0}")]
    Check(CallFailure),
}

/// One thing that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigComplaint {
    /// Where, as a JSON Pointer into the configuration; none if the plugin itself complains.
    pub path: Option<String>,
    /// The line of the file with the configuration, from 1; 0 if unknown.
    pub line: u64,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for ConfigComplaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}, ", self.line)?;
        }
        f.write_str(&self.message)
    }
}

impl ConfigComplaint {
    fn of_plugin(message: &str) -> Self {
        Self {
            path: None,
            line: 0,
            message: one_line(message, 500),
        }
    }
}

impl ConfigError {
    /// Fills in the lines of the complaints; `line` returns the line of a pointer into the configuration, 0 if it is unknown.
    #[must_use]
    pub fn located(mut self, line: impl Fn(&str) -> u64) -> Self {
        if let Self::Rejected(complaints) = &mut self {
            for complaint in complaints {
                complaint.line = complaint.path.as_deref().map_or(0, &line);
            }
        }
        self
    }

    fn of_schema(problem: Problem) -> Self {
        match problem {
            Problem::Schema(reason) => Self::Schema(one_line(&reason, 500)),
            Problem::TooLarge => Self::TooLarge,
            Problem::Rejected { complaints, more } => {
                let complaints = complaints.into_iter().map(|complaint| ConfigComplaint {
                    line: 0,
                    message: one_line(&complaint.to_string(), 500),
                    path: Some(complaint.path),
                });
                Self::rejected(complaints.collect(), more)
            }
        }
    }

    /// The first complaints, and how many more there are.
    fn rejected(mut complaints: Vec<ConfigComplaint>, more: usize) -> Self {
        if more > 0 {
            complaints.push(ConfigComplaint::of_plugin(&format!("and {more} more")));
        }
        Self::Rejected(complaints)
    }
}

fn sentences(complaints: &[ConfigComplaint]) -> String {
    let complaints: Vec<String> = complaints.iter().map(ToString::to_string).collect();
    complaints.join("; ")
}

/// Validates a configuration: against its schema, then by the plugin itself, which validates only what matches its schema. Returns
/// what it says of a valid one.
pub(super) fn check_config(
    sandbox: Sandbox<'_>,
    config: &Value,
    schema: Option<&str>,
) -> Result<ConfigVerdict, ConfigError> {
    match schema {
        Some(schema) => {
            let schema = serde_json::from_str(schema)
                .map_err(|error| ConfigError::Schema(error.to_string()))?;
            check_schema(config, &schema).map_err(ConfigError::of_schema)?;
        }
        None => check_absent(config)?,
    }
    let verdict = sandbox.validate_config().map_err(ConfigError::Check)?;
    let complaints = &verdict.complaints;
    if complaints.is_empty() {
        return Ok(verdict);
    }
    let first = complaints.iter().take(CONFIG_COMPLAINTS);
    let first = first.map(|complaint| ConfigComplaint::of_plugin(complaint));
    let more = complaints.len().saturating_sub(CONFIG_COMPLAINTS);
    Err(ConfigError::rejected(first.collect(), more))
}

fn check_absent(config: &Value) -> Result<(), ConfigError> {
    let keys = config.as_object().into_iter().flatten().map(|(key, _)| key);
    match keys.collect::<Vec<_>>().as_slice() {
        [] => Ok(()),
        keys => Err(ConfigError::Unwanted(list(keys))),
    }
}

#[cfg(test)]
mod tests;

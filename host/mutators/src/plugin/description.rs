//! Checks what a plugin says of itself, and its configuration.

use std::sync::Arc;

use podloom_config_schema::{Problem, check as check_schema};
use podloom_mutation::show_bytes;
use podloom_pod_path::{GrantError, Grants};
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::contract;
use crate::error::{ConfigComplaint, PluginError};
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

impl Description {
    /// Returns what is wrong with what a plugin says, or its description.
    pub(super) fn check(said: contract::Description) -> Result<Self, String> {
        if !is_dns_label(&said.name) {
            let name = one_line(&said.name, 100);
            return Err(format!(
                "its name {name:?} is not a DNS label; use at most 63 of a-z, 0-9 and `-`"
            ));
        }
        if !is_version(&said.version) {
            let version = one_line(&said.version, 100);
            return Err(format!(
                "its version {version:?} is not a semantic version; write for example 1.2.3"
            ));
        }
        if said.summary.len() > SUMMARY_BYTES {
            let most = show_bytes(SUMMARY_BYTES);
            return Err(format!("its summary is longer than {most}"));
        }
        for paths in [&said.reads, &said.writes] {
            if paths.len() > NEEDED_PATHS || paths.iter().any(|path| path.len() > NEEDED_PATH_BYTES)
            {
                let longest = show_bytes(NEEDED_PATH_BYTES);
                return Err(format!(
                    "it needs more than {NEEDED_PATHS} paths, or one longer than {longest}"
                ));
            }
            if let Some(path) = paths.iter().find(|path| !is_plain(path)) {
                let path = one_line(path, 200);
                return Err(format!("the path {path} contains invisible characters"));
            }
        }
        let paths = said.reads.iter().chain(&said.writes);
        let segments: usize = paths.map(|path| path.matches('/').count()).sum();
        if segments > NEEDED_SEGMENTS {
            return Err(format!(
                "the paths that it needs have more than {NEEDED_SEGMENTS} segments in total"
            ));
        }
        let invalid = |field| {
            move |error: GrantError| {
                let error = one_line(&error.to_string(), 500);
                format!("a path in `{field}` is invalid: {error}")
            }
        };
        let needed_reads = Grants::parse(&said.reads).map_err(invalid("reads"))?;
        let needed_writes = Grants::parse_writes(&said.writes).map_err(invalid("writes"))?;
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

fn schema(text: &str) -> Result<Option<Arc<str>>, String> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    if text.len() > SCHEMA_BYTES {
        let most = show_bytes(SCHEMA_BYTES);
        return Err(format!("its configuration schema is larger than {most}"));
    }
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| {
        let error = one_line(&error.to_string(), 200);
        format!("its configuration schema is not JSON: {error}")
    })?;
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

/// Validates a configuration: against its schema, then by the plugin itself, which validates only what matches its schema. Returns
/// what it says of a valid one.
pub(super) fn check_config(
    sandbox: Sandbox<'_>,
    config: &Value,
    schema: Option<&str>,
) -> Result<ConfigVerdict, PluginError> {
    match schema {
        Some(schema) => check_against(schema, config)?,
        None => {
            let keys = config.as_object().into_iter().flatten().map(|(key, _)| key);
            let keys: Vec<&String> = keys.collect();
            if !keys.is_empty() {
                let keys = list(&keys);
                return Err(format!(
                    "takes no configuration, but chain.yaml sets {keys}; remove `config`"
                )
                .into());
            }
        }
    }
    let verdict = sandbox.validate_config();
    let verdict =
        verdict.map_err(|failure| format!("could not check its configuration: {failure}"))?;
    let complaints = &verdict.complaints;
    if complaints.is_empty() {
        return Ok(verdict);
    }
    let first = complaints.iter().take(CONFIG_COMPLAINTS);
    let first = first.map(|message| complaint(None, message));
    let more = complaints.len().saturating_sub(CONFIG_COMPLAINTS);
    Err(rejected(first.collect(), more))
}

fn check_against(schema: &str, config: &Value) -> Result<(), PluginError> {
    let invalid = |reason: &str| {
        format!("has an invalid configuration schema, which its author must fix: {reason}")
    };
    let schema = serde_json::from_str(schema).map_err(|error| invalid(&error.to_string()))?;
    check_schema(config, &schema).map_err(|problem| match problem {
        Problem::Schema(reason) => invalid(&one_line(&reason, 500)).into(),
        Problem::TooLarge => "has a configuration that takes too many steps to check against its schema; use fewer or shorter items, or ask the author for a simpler schema".into(),
        Problem::Rejected { complaints, more } => {
            let complaints = complaints.into_iter().map(|it| {
                let message = it.to_string();
                complaint(Some(it.path), &message)
            });
            rejected(complaints.collect(), more)
        }
    })
}

fn complaint(path: Option<String>, message: &str) -> ConfigComplaint {
    ConfigComplaint {
        path,
        line: 0,
        message: one_line(message, 500),
    }
}

/// The first complaints, and how many more there are.
fn rejected(mut complaints: Vec<ConfigComplaint>, more: usize) -> PluginError {
    if more > 0 {
        complaints.push(complaint(None, &format!("and {more} more")));
    }
    PluginError::Config(complaints)
}

#[cfg(test)]
mod tests;

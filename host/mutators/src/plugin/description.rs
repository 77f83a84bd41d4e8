//! Checks the description that a plugin returns.

use std::sync::Arc;

use podloom_mutation::show_bytes;
use podloom_pod_path::{Grants, UnknownField};
use serde::de::IgnoredAny;

use crate::bindings;
use crate::limits::{
    NEEDED_PATH_BYTES, NEEDED_PATHS, NEEDED_SEGMENTS, SCHEMA_BYTES, SUMMARY_BYTES,
};
use crate::manifest::is_dns_label;
use crate::text::{is_plain, one_line};

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
    pub(super) fn check(said: bindings::Description) -> Result<Self, DescriptionError> {
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

impl Description {
    /// Fields that the Pod's schema does not know: in what it needs to read, and in what it needs to write.
    pub(crate) fn unknown_fields(&self) -> (Vec<UnknownField>, Vec<UnknownField>) {
        let reads = self.needed_reads.unknown_fields();
        (reads, self.needed_writes.unknown_fields())
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

#[cfg(test)]
mod tests;

//! Validates a plugin's configuration: against its schema, then by the plugin itself.

use std::fmt;

use podloom_config_schema::{Problem, check as check_schema};
use podloom_mutation::CallFailure;
use serde_json::Value;

use crate::limits::CONFIG_COMPLAINTS;
use crate::sandbox::{ConfigVerdict, Sandbox};
use crate::text::{list, one_line};

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

/// Runs both checks; the plugin validates only configurations that match its schema. Returns what it says of a valid one.
pub(super) fn check(
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
    let keys: Vec<&str> = config
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key.as_str())
        .collect();
    if keys.is_empty() {
        Ok(())
    } else {
        Err(ConfigError::Unwanted(list(&keys)))
    }
}

//! Checking a plugin's configuration: against its schema, then by the plugin itself.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError};
use serde_json::Value;

use crate::limits::{CONFIG_COMPLAINTS, PATTERN_MEMORY};
use crate::sandbox::{Failure, Sandbox};
use crate::text::{list, one_line};

/// What is wrong with a configuration. Each reads as the rest of a sentence that begins with the plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The plugin has no use for one.
    #[error("takes no configuration, but chain.yaml gives it {0}")]
    Unwanted(String),
    /// The plugin's own fault.
    #[error("brings an invalid configuration schema, which is its author's to mend: {0}")]
    Schema(String),
    /// It does not fit the schema.
    #[error("has a wrong configuration: {}", .0.join("; "))]
    Rejected(Vec<String>),
    /// The plugin could not even check it.
    #[error("could not check its configuration: {0}")]
    Check(Failure),
}

/// Both checks; the plugin is only asked about what fits its schema.
pub(super) fn check(
    sandbox: Sandbox<'_>,
    config: &Value,
    schema: Option<&str>,
) -> Result<(), ConfigError> {
    match schema {
        Some(schema) => {
            let schema = serde_json::from_str(schema)
                .map_err(|error| ConfigError::Schema(error.to_string()))?;
            check_schema(config, schema)?;
        }
        None => check_absent(config)?,
    }
    let complaints = sandbox.validate_config().map_err(ConfigError::Check)?;
    if complaints.is_empty() {
        return Ok(());
    }
    Err(rejected(
        complaints.iter().map(|complaint| one_line(complaint, 500)),
    ))
}

/// The first complaints, and how many more there are.
fn rejected(mut complaints: impl Iterator<Item = String>) -> ConfigError {
    let mut shown: Vec<String> = complaints.by_ref().take(CONFIG_COMPLAINTS).collect();
    match complaints.count() {
        0 => {}
        more => shown.push(format!("and {more} more")),
    }
    ConfigError::Rejected(shown)
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

/// Nothing is fetched for a schema, patterns are few and run in linear time and little memory, and neither references nor the
/// configuration can blow it up: a schema comes from a plugin, and is trusted no more than its code.
pub(super) fn check_schema(config: &Value, mut schema: Value) -> Result<(), ConfigError> {
    // All references are pointers into the schema, whatever it is called: it might be called like one that the validator has.
    if let Some(keywords) = schema.as_object_mut() {
        keywords.remove("$id");
    }
    super::expansion::check(&schema)
        .and_then(|()| super::steps::check(&schema, config))
        .map_err(|error| ConfigError::Schema(error.to_string()))?;
    let patterns = PatternOptions::regex()
        .size_limit(PATTERN_MEMORY)
        .dfa_size_limit(PATTERN_MEMORY);
    let validator = jsonschema::options()
        .offline()
        .with_pattern_options(patterns)
        .build(&schema)
        .map_err(|error| ConfigError::Schema(one_line(&error.to_string(), 500)))?;
    let mut errors = validator.iter_errors(config).peekable();
    if errors.peek().is_none() {
        return Ok(());
    }
    Err(rejected(errors.map(|error| complaint(&error))))
}

/// Names the place and the rule, never the value: a configuration may hold a secret, and this goes to logs and status.
fn complaint(error: &ValidationError<'_>) -> String {
    let path = error.instance_path();
    let text = match choices(error.kind()) {
        Some(choices) => format!("config{path}: value must be {choices}"),
        None => format!("config{path}: {}", error.masked()),
    };
    one_line(&text, 500)
}

/// The values that one of was wanted, if that is all that was wanted: an enumeration, or constants with a description each.
fn choices(kind: &ValidationErrorKind) -> Option<String> {
    let values: Vec<String> = match kind {
        ValidationErrorKind::Enum { options } => {
            options.as_array()?.iter().map(Value::to_string).collect()
        }
        ValidationErrorKind::OneOfNotValid { context } => {
            let constants = context.iter().map(|branch| match branch.as_slice() {
                [only] => match only.kind() {
                    ValidationErrorKind::Constant { expected_value } => {
                        Some(expected_value.to_string())
                    }
                    _ => None,
                },
                _ => None,
            });
            constants.collect::<Option<_>>()?
        }
        _ => return None,
    };
    match values.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        [first @ .., last] => Some(format!("{} or {last}", first.join(", "))),
    }
}

#[cfg(test)]
mod tests;

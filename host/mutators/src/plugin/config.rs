//! Validates a plugin's configuration: against its schema, then by the plugin itself.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::Value;

use super::expansion::{self, Expanded};
use super::steps::{self, Errors};
use crate::limits::{CONFIG_COMPLAINTS, PATTERN_MEMORY};
use crate::sandbox::{CallFailure, Sandbox};
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
    #[error("has an invalid configuration: {}", .0.join("; "))]
    Rejected(Vec<String>),
    /// The function `validate-config` failed.
    #[error("could not check its configuration: {0}")]
    Check(CallFailure),
}

/// Runs both checks; the plugin validates only configurations that match its schema.
pub(super) fn check(
    sandbox: Sandbox<'_>,
    config: &Value,
    schema: Option<&str>,
) -> Result<(), ConfigError> {
    match schema {
        Some(schema) => {
            let schema = serde_json::from_str(schema)
                .map_err(|error| ConfigError::Schema(error.to_string()))?;
            check_schema(config, &schema)?;
        }
        None => check_absent(config)?,
    }
    let complaints = sandbox.validate_config().map_err(ConfigError::Check)?;
    if complaints.is_empty() {
        return Ok(());
    }
    Err(rejected(complaints.iter(), |complaint| {
        one_line(complaint, 500)
    }))
}

/// The first complaints, and how many more there are.
fn rejected<T>(
    mut complaints: impl Iterator<Item = T>,
    text: impl FnMut(T) -> String,
) -> ConfigError {
    let first = complaints.by_ref().take(CONFIG_COMPLAINTS);
    let mut shown: Vec<String> = first.map(text).collect();
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

/// Bounds time and memory of validation, since a schema comes from a plugin and is not trusted: nothing is fetched, patterns are
/// few, run in linear time and take little memory, and references are expanded up to a limit.
pub(super) fn check_schema(config: &Value, schema: &Value) -> Result<(), ConfigError> {
    let Expanded { schema, draft } =
        expansion::expand(schema).map_err(|error| ConfigError::Schema(error.to_string()))?;
    let errors =
        steps::check(&schema, config).map_err(|steps::TooManySteps| ConfigError::TooLarge)?;
    let validator = build(&schema, draft)?;
    if validator.is_valid(config) {
        return Ok(());
    }
    match errors {
        Errors::Few => Err(rejected(validator.iter_errors(config), |error| {
            complaint(&error)
        })),
        Errors::TooMany => Err(ConfigError::Rejected(vec![
            "config: does not match the schema, and is too large to find out where; try parts of it"
                .to_owned(),
        ])),
    }
}

fn build(schema: &Value, draft: Draft) -> Result<Validator, ConfigError> {
    let is_schema = match draft {
        Draft::Draft7 => jsonschema::draft7::meta::is_valid(schema),
        Draft::Draft201909 => jsonschema::draft201909::meta::is_valid(schema),
        _ => jsonschema::draft202012::meta::is_valid(schema),
    };
    // The validator could take unbounded memory for finding out what exactly is wrong.
    if !is_schema {
        return Err(ConfigError::Schema(
            "it is not valid for its draft of JSON Schema; validate it against the meta-schema to see where"
                .to_owned(),
        ));
    }
    let patterns = PatternOptions::regex()
        .size_limit(PATTERN_MEMORY)
        .dfa_size_limit(PATTERN_MEMORY);
    jsonschema::options()
        .offline()
        .with_draft(draft)
        .with_pattern_options(patterns)
        .should_validate_formats(false)
        .build(schema)
        .map_err(|error| ConfigError::Schema(one_line(&error.to_string(), 500)))
}

/// Names the path and the rule, never the value, which may be secret: this text goes to logs and statuses.
fn complaint(error: &ValidationError<'_>) -> String {
    let path = error.instance_path();
    let text = match choices(error.kind()) {
        Some(choices) => format!("config{path}: value must be {choices}"),
        None => format!("config{path}: {}", error.masked()),
    };
    one_line(&text, 500)
}

/// The allowed values, if the rule is a list of values: an `enum`, or a `oneOf` of constants.
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

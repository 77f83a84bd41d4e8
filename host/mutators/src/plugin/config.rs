//! Checking a plugin's configuration: against its schema, then by the plugin itself.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::Value;

use super::expansion::{self, Expanded};
use super::steps::{self, Errors};
use crate::limits::{CONFIG_COMPLAINTS, PATTERN_MEMORY};
use crate::sandbox::{CallFailure, Sandbox};
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
    /// It may be right, but finding out would take too long.
    #[error(
        "has a configuration that takes too many steps to check against its schema; give it fewer or shorter items, or ask its author for a simpler schema"
    )]
    TooLarge,
    /// It does not fit the schema.
    #[error("has a wrong configuration: {}", .0.join("; "))]
    Rejected(Vec<String>),
    /// The plugin could not even check it.
    #[error("could not check its configuration: {0}")]
    Check(CallFailure),
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

/// Nothing is fetched for a schema, patterns are few and run in linear time and little memory, and neither references nor the
/// configuration can blow it up: a schema comes from a plugin, and is trusted no more than its code.
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
            "config: does not fit the schema; it is too large to say where, so try parts of it"
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
    // What exactly is wrong may take the validator memory without bounds.
    if !is_schema {
        return Err(ConfigError::Schema(
            "it is not what its draft of JSON Schema calls a schema, as any validator shows"
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

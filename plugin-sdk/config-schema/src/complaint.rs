//! What does not match the schema, and where.

use std::fmt;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{JsonType, ValidationError};
use podloom_pod_path::nearest;
use serde_json::Value;

use crate::variant::{self, Unfit};

/// A longer string in place of one of a list of words is not quoted.
const CHOICE_BYTES: usize = 40;
/// How many unknown fields of one object a message names.
const MOST_UNKNOWN: usize = 5;
/// How many known fields it lists.
const MOST_LISTED: usize = 24;

/// One thing that is wrong with a configuration.
///
/// It names the path, the rule, and what was found. Numbers, booleans and words in place of one of a list of words are
/// quoted, other strings are not: they may be secret, and this text goes to logs and statuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// Where, as a JSON Pointer into the configuration.
    pub path: String,
    /// What is wrong there.
    pub message: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "config{}: {}", self.path, self.message)
    }
}

impl Complaint {
    /// What is wrong according to an error: for a value that fits no variant, what is wrong with the nearest one.
    pub(crate) fn all(error: &ValidationError<'_>, schema: &Value) -> Vec<Self> {
        let (ValidationErrorKind::OneOfNotValid { context }
        | ValidationErrorKind::AnyOf { context }) = error.kind()
        else {
            return vec![Self::of(error, schema)];
        };
        if choices(error.kind()).is_some() {
            return vec![Self::of(error, schema)];
        }
        match variant::unfit(&error.instance_path().to_string(), context, schema) {
            Some(Unfit::Nearest(errors)) => errors
                .iter()
                .flat_map(|error| Self::all(error, schema))
                .collect(),
            Some(Unfit::Tag { path, tag, known }) => {
                let message = chosen(tag, &known);
                vec![Self { path, message }]
            }
            None => vec![Self::of(error, schema)],
        }
    }

    fn of(error: &ValidationError<'_>, schema: &Value) -> Self {
        let path = error.instance_path().to_string();
        let value = error.instance();
        let message = match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                unknown_fields(unexpected, &variant::fields_beside(error, schema))
            }
            ValidationErrorKind::Required { property } => {
                format!("the field {} is missing", word(property))
            }
            ValidationErrorKind::Type { kind } => {
                let expected = match kind {
                    jsonschema::error::TypeKind::Single(kind) => noun(*kind).to_owned(),
                    jsonschema::error::TypeKind::Multiple(kinds) => list(
                        &kinds
                            .iter()
                            .map(|kind| noun(kind).to_owned())
                            .collect::<Vec<_>>(),
                    ),
                };
                match &**value {
                    // Perhaps a password of digits that lacks its quotes.
                    Value::Number(_) if expected.contains("a string") => {
                        format!("expected {expected}, found a number; write it in quotes")
                    }
                    value => format!("expected {expected}, found {}", found(value)),
                }
            }
            kind => match (choices(kind), number(value)) {
                (Some(choices), _) => chosen(value, &choices),
                (None, Some(number)) => format!("{}, found {number}", error.masked()),
                (None, None) => error.masked().to_string(),
            },
        };
        Self { path, message }
    }
}

fn unknown_fields(unknown: &[String], known: &[&str]) -> String {
    // Each is compared with all known fields, and a longer message would be cut anyway.
    let listed = known.get(..MOST_LISTED).unwrap_or(known).join(", ");
    let told = unknown.iter().take(MOST_UNKNOWN).map(|field| {
        match nearest(field, known.iter().copied()) {
            Some(near) => format!("unknown field {field}; did you mean {near}?"),
            None if known.is_empty() => format!("unknown field {field}; no fields are known here"),
            None => format!("unknown field {field}; the fields are {listed}"),
        }
    });
    told.collect::<Vec<_>>().join("; ")
}

/// A wrong choice. The word is quoted, unless it is so long that it cannot have been meant as one of the choices.
fn chosen(value: &Value, choices: &[String]) -> String {
    let allowed = list(choices);
    let words: Vec<&str> = choices
        .iter()
        .map(|choice| choice.trim_matches('"'))
        .collect();
    let Some(word) = value.as_str().filter(|word| word.len() <= CHOICE_BYTES) else {
        return format!("value must be {allowed}, found {}", found(value));
    };
    match nearest(word, words.iter().copied()) {
        Some(near) => format!("value must be {allowed}, found {word:?}; did you mean {near:?}?"),
        None => format!("value must be {allowed}, found {word:?}"),
    }
}

/// The allowed values, if the rule is a list of values: an `enum`, or a `oneOf` of constants.
fn choices(kind: &ValidationErrorKind) -> Option<Vec<String>> {
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
    (!values.is_empty()).then_some(values)
}

fn list(values: &[String]) -> String {
    match values {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

fn number(value: &Value) -> Option<&serde_json::Number> {
    match value {
        Value::Number(number) => Some(number),
        _ => None,
    }
}

/// A value as messages may show it.
fn found(value: &Value) -> String {
    match value {
        Value::Null => "nothing (null)".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

fn word(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn noun(kind: JsonType) -> &'static str {
    match kind {
        JsonType::Array => "a list",
        JsonType::Boolean => "a boolean",
        JsonType::Integer => "an integer",
        JsonType::Null => "null",
        JsonType::Number => "a number",
        JsonType::Object => "an object",
        JsonType::String => "a string",
    }
}

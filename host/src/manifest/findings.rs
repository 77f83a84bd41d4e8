//! What was found to be wrong with objects, and the words for it.

use serde_json::Value;

use super::document::Document;
use super::field::Step;
use super::suggest;
use crate::refusal::Refusal;

/// How many fields a message lists.
const MOST_LISTED: usize = 24;

/// What was found to be wrong.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Ends the command.
    pub(crate) refusals: Vec<Refusal>,
    /// Is told, for a newer Kubernetes may know better.
    pub(crate) warnings: Vec<Refusal>,
}

/// Says that a field is unknown, and which was meant or which there are.
pub(super) fn unknown_field(field: &str, known: &[&str]) -> String {
    match suggest::nearest(field, known.iter().copied()) {
        Some(meant) => format!("unknown field; did you mean {meant}?"),
        // A list that nobody reads helps nobody.
        None if known.is_empty() || known.len() > MOST_LISTED => "unknown field".to_owned(),
        None => format!("unknown field; there are {}", known.join(", ")),
    }
}

/// Says which type was found and which was wanted, and how to write it where quotes are all that is missing.
pub(super) fn wrong_type(
    document: &Document,
    path: &[Step],
    found: &Value,
    expected: &str,
) -> String {
    let written = document.written(path);
    let noun = match found {
        Value::Null => {
            return format!("is empty and must be {expected}: give one, or leave the field out");
        }
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "map",
    };
    match (found, written) {
        (Value::Bool(_) | Value::Number(_), Some(written)) if expected.contains("string") => {
            format!("is the {noun} {written} and must be {expected}: write \"{written}\"")
        }
        (Value::Bool(_) | Value::Number(_), Some(written)) => {
            format!("is the {noun} {written} and must be {expected}")
        }
        (Value::String(text), _) if is_scalar_of(text, expected) => {
            format!("is the string {text:?} and must be {expected}: write it without quotes")
        }
        _ => format!("is a {noun} and must be {expected}"),
    }
}

/// Whether a text would be of the expected type if it had no quotes.
fn is_scalar_of(text: &str, expected: &str) -> bool {
    match text {
        "true" | "false" => expected.contains("boolean"),
        text => expected.contains("integer") && text.parse::<i64>().is_ok(),
    }
}

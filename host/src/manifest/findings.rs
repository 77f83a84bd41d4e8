//! The result of checking objects, and the wording of the messages.

use std::collections::BTreeSet;

use podloom_pod_path::nearest;
use serde_json::Value;

use super::document::Document;
use super::field::Step;
use crate::error::{Diagnostic, quoted};

/// How many known fields a message lists at most.
const MOST_LISTED: usize = 24;

/// The errors and warnings about the objects.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// These end the command.
    pub(crate) errors: Vec<Diagnostic>,
    /// These are only printed: a newer Kubernetes may know the field, and a pod in an unknown kind may be none.
    pub(crate) warnings: Vec<Diagnostic>,
    /// The indices of the documents that have errors.
    pub(crate) refused: BTreeSet<usize>,
}

/// The message for an unknown field. It suggests a similar field, or lists the known ones.
pub(super) fn unknown_field(field: &str, known: &[&str]) -> String {
    match nearest(field, known.iter().copied()) {
        Some(meant) => format!("unknown field; did you mean {meant}?"),
        // Nobody reads a list that is too long.
        None if known.is_empty() || known.len() > MOST_LISTED => "unknown field".to_owned(),
        None => format!("unknown field; known fields: {}", known.join(", ")),
    }
}

/// The message for a value of the wrong type. If only quotes are missing or too many, it says so.
pub(super) fn wrong_type(
    document: &Document,
    path: &[Step],
    found: &Value,
    expected: &str,
) -> String {
    let written = document.written(path);
    let noun = match found {
        Value::Null => {
            return format!("is empty and must be {expected}: set a value or remove the field");
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
            format!(
                "is the string {} and must be {expected}: write it without quotes",
                quoted(text)
            )
        }
        _ => format!("is a {noun} and must be {expected}"),
    }
}

/// Whether a string would be of the expected type without its quotes.
fn is_scalar_of(text: &str, expected: &str) -> bool {
    match text {
        "true" | "false" => expected.contains("boolean"),
        text => expected.contains("integer") && text.parse::<i64>().is_ok(),
    }
}

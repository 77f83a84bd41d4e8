//! What a schema says, in words.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use podloom_api::{DNS_SUBDOMAIN, IM_URL, UUID};
use serde_json::Value;

/// The error for a value that breaks a limit or has another form; none if the schema's own words must do.
pub(super) fn in_words(kind: &ValidationErrorKind, value: &Value) -> Option<String> {
    match kind {
        ValidationErrorKind::Pattern { pattern } => form(pattern).map(str::to_owned),
        kind => out_of_bounds(kind, value),
    }
}

/// What a text must be that has to match a pattern. It does not repeat the text: a URL may have a password in it.
fn form(pattern: &str) -> Option<&'static str> {
    match pattern {
        IM_URL => Some(
            "must be a URL: http:// or https://, a host, and if needed a port and a path; no user name, query or fragment",
        ),
        UUID => Some(
            "must be a UUID in lower-case letters, such as 5b0ae1a6-0e2f-11f0-8de9-0242ac120002",
        ),
        DNS_SUBDOMAIN => Some(
            "must have lower-case letters, digits, '-' and '.', with a letter or digit at the start and the end of each part",
        ),
        _ => None,
    }
}

/// The error for a value that is too large or too small: a number, or the size of something else, and the limit.
fn out_of_bounds(kind: &ValidationErrorKind, value: &Value) -> Option<String> {
    let (size, limit, what) = match (kind, value) {
        (ValidationErrorKind::Minimum { limit }, Value::Number(number)) => {
            return Some(format!("is {number}, use at least {}", whole(limit)));
        }
        (ValidationErrorKind::Maximum { limit }, Value::Number(number)) => {
            return Some(format!("is {number}, use at most {}", whole(limit)));
        }
        (ValidationErrorKind::MaxLength { limit }, Value::String(text)) => {
            (text.chars().count(), limit, "characters")
        }
        (ValidationErrorKind::MinLength { limit }, Value::String(text)) => {
            let size = text.chars().count();
            return Some(format!("has {size} characters, use at least {limit}"));
        }
        (ValidationErrorKind::MaxItems { limit }, Value::Array(items)) => {
            (items.len(), limit, "entries")
        }
        (ValidationErrorKind::MaxProperties { limit }, Value::Object(fields)) => {
            (fields.len(), limit, "entries")
        }
        _ => return None,
    };
    Some(format!("has {size} {what}, use at most {limit}"))
}

/// A limit as people write it: CRDs have floating-point numbers.
fn whole(limit: &Value) -> String {
    limit
        .as_f64()
        .map_or_else(|| limit.to_string(), |limit| limit.to_string())
}

/// The values of an enum, without null.
pub(super) fn one_of(options: &Value) -> String {
    let options: Vec<String> = options
        .as_array()
        .into_iter()
        .flatten()
        .filter(|option| !option.is_null())
        .map(Value::to_string)
        .collect();
    options.join(" or ")
}

pub(super) fn expected_types(kind: &TypeKind) -> String {
    let names: Vec<String> = match kind {
        TypeKind::Single(one) => vec![one.to_string()],
        TypeKind::Multiple(several) => several.iter().map(|one| one.to_string()).collect(),
    };
    names
        .iter()
        .map(|name| match name.as_str() {
            "object" => "a map",
            "array" => "a list",
            "string" => "a string",
            "integer" => "an integer",
            "number" => "a number",
            "boolean" => "a boolean",
            other => other,
        })
        .filter(|name| *name != "null")
        .collect::<Vec<_>>()
        .join(" or ")
}

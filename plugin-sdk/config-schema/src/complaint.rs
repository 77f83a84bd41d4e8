//! What does not match the schema, and where; and which of several variants (`oneOf`, `anyOf`) a value was meant to be.

use std::cmp::Reverse;
use std::fmt;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{JsonType, ValidationError};
use podloom_pod_path::nearest;
use serde_json::Value;

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
        let unfit = match choices(error.kind()) {
            None => unfit(&error.instance_path().to_string(), context, schema),
            Some(_) => None,
        };
        unfit.unwrap_or_else(|| vec![Self::of(error, schema)])
    }

    fn of(error: &ValidationError<'_>, schema: &Value) -> Self {
        let path = error.instance_path().to_string();
        let value = error.instance();
        let message = match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                unknown_fields(unexpected, &fields_beside(error, schema))
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

/// How many unknown fields of one object are compared with the known ones. The variants are too few for more to matter.
const MOST_COMPARED: usize = 5;

/// What to tell about a value that fits no variant: what is wrong with the one that it was meant to be, or that its tag names none. None
/// if there are no variants.
fn unfit(
    path: &str,
    variants: &[Vec<ValidationError<'static>>],
    schema: &Value,
) -> Option<Vec<Complaint>> {
    // A variant of another type, above all null for a value that may be absent, was not meant.
    let (other, meant): (Vec<_>, Vec<_>) = variants
        .iter()
        .partition(|errors| errors.iter().any(|error| is_of_other_type(path, error)));
    let meant = if meant.is_empty() { other } else { meant };
    if meant.len() > 1
        && let Some(unfit) = wrong_tag(path, &meant)
    {
        return Some(vec![unfit]);
    }
    let nearest = meant.into_iter().min_by_key(|errors| {
        let is_tagged_otherwise = errors.iter().any(|error| tag(path, error).is_some());
        let strangers = strangers(errors, schema);
        let depth = Reverse(deepest(errors));
        (is_tagged_otherwise, strangers, errors.len(), depth)
    });
    let complaints = |error| Complaint::all(error, schema);
    nearest.map(|errors| errors.iter().flat_map(complaints).collect())
}

/// How many fields the variant does not know, not even under a similar name.
fn strangers(errors: &[ValidationError<'static>], schema: &Value) -> usize {
    let unknown = errors.iter().map(|error| {
        let ValidationErrorKind::AdditionalProperties { unexpected } = error.kind() else {
            return 0;
        };
        let known = fields_beside(error, schema);
        let is_strange = |field: &&String| nearest(field, known.iter().copied()).is_none();
        unexpected
            .iter()
            .take(MOST_COMPARED)
            .filter(is_strange)
            .count()
    });
    unknown.sum()
}

/// The fields that the schema knows where this error's rule is.
pub(crate) fn fields_beside<'s>(error: &ValidationError<'_>, schema: &'s Value) -> Vec<&'s str> {
    // Its own rule is the last segment; the known fields are beside it.
    let rule = error.schema_path().to_string();
    let parent = rule.rsplit_once('/').map_or("", |(parent, _)| parent);
    let properties = schema.pointer(parent).and_then(|at| at.get("properties"));
    let properties = properties.and_then(Value::as_object).into_iter().flatten();
    properties.map(|(name, _)| name.as_str()).collect()
}

/// How deep in the value the first error is. The deeper, the more of the value fits.
fn deepest(errors: &[ValidationError<'static>]) -> usize {
    let depth =
        |error: &ValidationError<'_>| error.instance_path().to_string().matches('/').count();
    errors.iter().map(depth).max().unwrap_or_default()
}

fn is_of_other_type(path: &str, error: &ValidationError<'_>) -> bool {
    matches!(error.kind(), ValidationErrorKind::Type { .. })
        && error.instance_path().to_string() == path
}

/// The tag that a variant expects in a field of the value, or as the value, if the value has another.
fn tag<'e>(path: &str, error: &'e ValidationError<'_>) -> Option<(String, &'e Value)> {
    let ValidationErrorKind::Constant { expected_value } = error.kind() else {
        return None;
    };
    let at = error.instance_path().to_string();
    let below = at.strip_prefix(path)?;
    (below.matches('/').count() <= 1).then_some((at, expected_value))
}

/// If all variants expect another tag at the same place.
fn wrong_tag(path: &str, meant: &[&Vec<ValidationError<'static>>]) -> Option<Complaint> {
    let mut known = Vec::new();
    let mut found: Option<(String, &Value)> = None;
    for errors in meant {
        let (at, expected, error) = errors
            .iter()
            .find_map(|error| tag(path, error).map(|(at, expected)| (at, expected, error)))?;
        if found.as_ref().is_some_and(|(before, _)| *before != at) {
            return None;
        }
        known.push(expected.to_string());
        found = Some((at, error.instance()));
    }
    let (path, tag) = found?;
    let message = chosen(tag, &known);
    Some(Complaint { path, message })
}

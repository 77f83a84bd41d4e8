//! Which of several variants (`oneOf`, `anyOf`) a value was meant to be.

use std::cmp::Reverse;

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use podloom_pod_path::nearest;
use serde_json::Value;

/// How many unknown fields of one object are compared with the known ones. The variants are too few for more to matter.
const MOST_COMPARED: usize = 5;

/// What to tell about a value that fits no variant.
pub(crate) enum Unfit<'e> {
    /// It was meant to be the variant with these errors.
    Nearest(&'e [ValidationError<'static>]),
    /// Its tag names no variant.
    Tag {
        /// Where the tag is, as a JSON Pointer into the configuration.
        path: String,
        /// The tag.
        tag: &'e Value,
        /// The tags of the variants.
        known: Vec<String>,
    },
}

/// Finds out what to tell; none if there are no variants.
pub(crate) fn unfit<'e>(
    path: &str,
    variants: &'e [Vec<ValidationError<'static>>],
    schema: &Value,
) -> Option<Unfit<'e>> {
    // A variant of another type, above all null for a value that may be absent, was not meant.
    let (other, meant): (Vec<_>, Vec<_>) = variants
        .iter()
        .partition(|errors| errors.iter().any(|error| is_of_other_type(path, error)));
    let meant = if meant.is_empty() { other } else { meant };
    if meant.len() > 1
        && let Some(unfit) = wrong_tag(path, &meant)
    {
        return Some(unfit);
    }
    let nearest = meant.into_iter().min_by_key(|errors| {
        let is_tagged_otherwise = errors.iter().any(|error| tag(path, error).is_some());
        let strangers = strangers(errors, schema);
        let depth = Reverse(deepest(errors));
        (is_tagged_otherwise, strangers, errors.len(), depth)
    });
    nearest.map(|errors| Unfit::Nearest(errors))
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
fn wrong_tag<'e>(path: &str, meant: &[&'e Vec<ValidationError<'static>>]) -> Option<Unfit<'e>> {
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
    found.map(|(path, tag)| Unfit::Tag { path, tag, known })
}

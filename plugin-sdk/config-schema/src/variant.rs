//! Which of several variants (`oneOf`, `anyOf`) a value was meant to be.

use std::cmp::Reverse;

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;

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
        (is_tagged_otherwise, errors.len(), Reverse(deepest(errors)))
    });
    nearest.map(|errors| Unfit::Nearest(errors))
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

/// The tag that a variant expects in a field of the value, if the value has another.
fn tag<'e>(path: &str, error: &'e ValidationError<'_>) -> Option<(String, &'e Value)> {
    let ValidationErrorKind::Constant { expected_value } = error.kind() else {
        return None;
    };
    let at = error.instance_path().to_string();
    let field = at.strip_prefix(path)?.strip_prefix('/')?;
    (!field.contains('/')).then_some((at, expected_value))
}

/// If all variants expect another tag in the same field.
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

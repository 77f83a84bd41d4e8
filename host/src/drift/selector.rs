//! Label selectors on labels of which some may be unknown.

use std::slice::from_ref;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// A label, as far as it is known.
#[derive(Clone, Copy)]
pub(super) enum Label<'a> {
    Is(&'a str),
    Absent,
    Unknown,
}

/// Whether a selector selects these labels; none if that depends on a label that is not known.
pub(super) fn selects<'a>(
    selector: &LabelSelector,
    label: &dyn Fn(&str) -> Label<'a>,
) -> Option<bool> {
    let exact = selector.match_labels.iter().flatten();
    let exact = exact.map(|(key, value)| is_one_of(label(key), from_ref(value)));
    let expressions = selector.match_expressions.iter().flatten();
    let expressions = expressions.map(|it| holds(it, label(&it.key)));
    all(exact.chain(expressions))
}

/// Whether all are true; none if that is not known.
pub(super) fn all(parts: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut is_known = true;
    for part in parts {
        match part {
            Some(true) => {}
            Some(false) => return Some(false),
            None => is_known = false,
        }
    }
    is_known.then_some(true)
}

/// As in Kubernetes, `NotIn` holds if the label is absent.
fn holds(requirement: &LabelSelectorRequirement, label: Label<'_>) -> Option<bool> {
    let values = requirement.values.as_deref().unwrap_or_default();
    match requirement.operator.as_str() {
        "In" => is_one_of(label, values),
        "NotIn" => is_one_of(label, values).map(|is| !is),
        "Exists" => is_there(label),
        "DoesNotExist" => is_there(label).map(|is| !is),
        // The API server accepts no other one.
        _ => None,
    }
}

fn is_one_of(label: Label<'_>, values: &[String]) -> Option<bool> {
    match label {
        Label::Is(value) => Some(values.iter().any(|it| it == value)),
        Label::Absent => Some(false),
        Label::Unknown => None,
    }
}

fn is_there(label: Label<'_>) -> Option<bool> {
    match label {
        Label::Is(_) => Some(true),
        Label::Absent => Some(false),
        Label::Unknown => None,
    }
}

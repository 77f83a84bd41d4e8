//! Which objects a target is: their kind, and their name or labels.

use kube::core::Selector;
use podloom_api::TargetReference;
use podloom_syntax::names::{dns_label, dns_subdomain};

use super::selector::{self, BadSelector};

/// A kind as a spec writes it: the letters of `kind` may have any case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KindReference {
    /// The API group; empty for the core.
    pub(crate) group: String,
    /// The version.
    pub(crate) version: String,
    /// The kind.
    pub(crate) kind: String,
}

/// Which objects of a kind a target is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Selection {
    /// The one of this name.
    One(String),
    /// Those with these labels. A selector that no label can match is a mistake that shows when the target is read.
    Labelled(Result<Selector, BadSelector>),
}

/// What is wrong: in which field of the reference, and what to write instead.
pub(crate) type Mistake = (Option<&'static str>, &'static str);

const BAD_GROUP: &str =
    "this is no API group; write one such as apps, or leave it out for the core";
const BAD_VERSION: &str = "this is no version of an API; write one such as v1";
const BAD_KIND: &str = "this is no kind; write one such as Pod";
const BAD_NAME: &str =
    "this is no name of an object: it has no slash and no percent sign, and is not . or ..";

/// Reads the reference of a target.
pub(crate) fn read(
    reference: &TargetReference,
    is_deleted: bool,
) -> Result<(KindReference, Selection), Mistake> {
    Ok((kind(reference)?, selection(reference, is_deleted)?))
}

fn kind(reference: &TargetReference) -> Result<KindReference, Mistake> {
    let group = reference.api_group.as_deref();
    let (field, group, version) = match (&reference.version, &reference.api_version) {
        (Some(version), None) => ("version", group.unwrap_or_default(), version.as_str()),
        (None, Some(_)) if group.is_some() => {
            return Err((
                None,
                "give apiGroup and version, or apiVersion instead of both",
            ));
        }
        (None, Some(both)) => {
            let (group, version) = both.split_once('/').unwrap_or(("", both));
            ("apiVersion", group, version)
        }
        _ => return Err((None, "give exactly one of version and apiVersion")),
    };
    if !group.is_empty() && dns_subdomain(group).is_err() {
        return Err((Some("apiGroup"), BAD_GROUP));
    }
    // The name of a version begins with a letter, and becomes a part of a URL.
    if dns_label(version).is_err() || version.starts_with(|it: char| it.is_ascii_digit()) {
        return Err((Some(field), BAD_VERSION));
    }
    if dns_label(&reference.kind.to_ascii_lowercase()).is_err() {
        return Err((Some("kind"), BAD_KIND));
    }
    Ok(KindReference {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: reference.kind.clone(),
    })
}

fn selection(reference: &TargetReference, is_deleted: bool) -> Result<Selection, Mistake> {
    let read = match (
        &reference.name,
        &reference.match_labels,
        &reference.label_selector,
    ) {
        (Some(name), None, None) if is_object_name(name) => {
            return Ok(Selection::One(name.clone()));
        }
        (Some(_), None, None) => return Err((Some("name"), BAD_NAME)),
        (None, Some(labels), None) => selector::of_labels(labels),
        (None, None, Some(selector)) => selector::of(selector),
        _ => {
            return Err((
                None,
                "give exactly one of name, matchLabels and labelSelector",
            ));
        }
    };
    if is_deleted && read.as_ref().is_ok_and(Selector::selects_all) {
        let text =
            "an empty selector would delete all objects of this kind, give at least one label";
        return Err((None, text));
    }
    Ok(Selection::Labelled(read))
}

/// Returns whether a name is one segment of a URL's path. Some kinds have names that are no DNS names.
pub(crate) fn is_object_name(name: &str) -> bool {
    let is_part_of_path = |c: char| c != '/' && c != '%' && !c.is_control();
    (1..=253).contains(&name.len())
        && name.chars().all(is_part_of_path)
        && name != "."
        && name != ".."
}

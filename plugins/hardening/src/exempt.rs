//! What the configuration spares.

use podloom_plugin_sdk::{Findings, Request, note};

use crate::config::Exemption;
use crate::view::View;

/// Marks the containers that are exempt and notes why. Returns whether the whole pod is, which is noted too.
pub(crate) fn apply(exemptions: &[Exemption], request: &Request, view: &mut View) -> bool {
    let mut exempt = Findings::default();
    for exemption in exemptions {
        if !holds(exemption, request, view) {
            continue;
        }
        let reason = &exemption.reason;
        if exemption.containers.is_empty() {
            note(&format!("the pod is exempt: {reason}"));
            return true;
        }
        for container in view.containers.iter_mut() {
            if !container.exempt && matches_any(&exemption.containers, &container.name) {
                exempt.add(&container.path, &format!("exempt: {reason}"));
                container.exempt = true;
            }
        }
    }
    for text in exempt.notes() {
        note(&text);
    }
    false
}

/// Whether all that an exemption asks of the pod holds.
fn holds(exemption: &Exemption, request: &Request, view: &View) -> bool {
    let namespaces = &exemption.namespaces;
    if !namespaces.is_empty() && !matches_any(namespaces, &request.namespace()) {
        return false;
    }
    let accounts = &exemption.service_accounts;
    if !accounts.is_empty() && !matches_any(accounts, service_account(view)) {
        return false;
    }
    let labels = &view.metadata.labels;
    let mut expected = exemption.match_labels.iter();
    expected.all(|(key, value)| labels.get(key) == Some(value))
}

/// The name of the pod's service account. An empty name is no name, and the old field counts where the new one is empty: as the
/// API server has it.
pub(crate) fn service_account(view: &View) -> &str {
    let names = [&view.spec.service_account_name, &view.spec.service_account];
    let name = names.into_iter().find(|name| !name.is_empty());
    name.map_or("default", |name| name)
}

/// Whether text matches one of the patterns.
pub(crate) fn matches_any(patterns: &[String], text: &str) -> bool {
    let mut patterns = patterns.iter();
    patterns.any(|pattern| matches(pattern.as_bytes(), text.as_bytes()))
}

/// Whether text matches a pattern, in which `*` stands for any text.
fn matches(mut pattern: &[u8], mut text: &[u8]) -> bool {
    // Where the last star was, and the text that it has not swallowed yet.
    let mut star = None;
    loop {
        match (pattern.split_first(), text.split_first()) {
            (Some((b'*', rest)), _) => {
                star = Some((rest, text));
                pattern = rest;
            }
            (Some((expected, after)), Some((found, rest))) if expected == found => {
                pattern = after;
                text = rest;
            }
            (None, None) => return true,
            _ => {
                let Some((after, [_, rest @ ..])) = star else {
                    return false;
                };
                star = Some((after, rest));
                pattern = after;
                text = rest;
            }
        }
    }
}

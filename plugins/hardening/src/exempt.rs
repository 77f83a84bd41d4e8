//! What the configuration spares.

use podloom_plugin_sdk::{Error, Pod, Request, note, path};

use crate::config::{Exemption, Labels};
use crate::view::{Container, Spec};

/// Marks the containers that are exempt and notes why. Returns whether the whole pod is, which is noted too.
pub(crate) fn apply(
    exemptions: &[Exemption],
    request: &Request,
    pod: &Pod,
    spec: &Spec,
    containers: &mut [Container],
) -> Result<bool, Error> {
    for exemption in exemptions {
        if !holds(exemption, request, pod, spec)? {
            continue;
        }
        if exemption.containers.is_empty() {
            note(&["the pod is exempt: ", &exemption.reason].concat());
            return Ok(true);
        }
        for container in containers.iter_mut().filter(|container| !container.exempt) {
            container.exempt = matches_any(
                &exemption.containers,
                container.name.as_deref().unwrap_or_default(),
            );
            if container.exempt {
                note(&[container.path(), " is exempt: ", &exemption.reason].concat());
            }
        }
    }
    Ok(false)
}

/// Whether all that an exemption asks of the pod holds.
fn holds(exemption: &Exemption, request: &Request, pod: &Pod, spec: &Spec) -> Result<bool, Error> {
    let namespaces = &exemption.namespaces;
    if !namespaces.is_empty() && !matches_any(namespaces, &request.namespace()) {
        return Ok(false);
    }
    let accounts = &exemption.service_accounts;
    // An empty name is no name, and the old field counts where the new one is empty: as the API server has it.
    let named = [&spec.service_account_name, &spec.service_account];
    let account = named.into_iter().flatten().find(|name| !name.is_empty());
    if !accounts.is_empty() && !matches_any(accounts, account.map_or("default", |name| name)) {
        return Ok(false);
    }
    has_labels(pod, &exemption.match_labels)
}

fn has_labels(pod: &Pod, labels: &Labels) -> Result<bool, Error> {
    for (key, value) in &labels.0 {
        let mut place = String::from("/metadata/labels");
        path::push(&mut place, key);
        if pod.get::<String>(&place)?.as_ref() != Some(value) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether text matches one of the patterns.
pub(crate) fn matches_any(patterns: &[String], text: &str) -> bool {
    patterns
        .iter()
        .any(|pattern| matches(pattern.as_bytes(), text.as_bytes()))
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

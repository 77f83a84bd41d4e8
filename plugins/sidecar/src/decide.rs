//! Whether a pod is injected.

use podloom_plugin_sdk::LabelSelector;
use podloom_plugin_sdk::prelude::*;

use crate::config::Config;
use crate::view::View;

/// Key of the label or annotation, of a pod or its namespace, that says whether to inject: `true` or `false`.
pub(crate) const INJECT: &str = "sidecar.podloom.dev/inject";

/// Key of the annotation of a pod that a node runs by itself.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// What to do with a pod, and why.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Bring it to what is configured.
    Inject,
    /// Touch nothing, not even what was injected before.
    Leave(String),
    /// The pod itself refuses: take out what was injected before.
    Strip(String),
}

pub(crate) fn decide(config: &Config, request: &Request, view: &View) -> Decision {
    if let Some(reason) = obstacle(config, request, view) {
        return Decision::Leave(reason);
    }
    for (source, map) in [
        ("the pod's label", &view.metadata.labels),
        ("the pod's annotation", &view.metadata.annotations),
    ] {
        match map.get(INJECT).and_then(|value| switch(source, value)) {
            Some(true) => return Decision::Inject,
            Some(false) => return Decision::Strip(format!("{source} {INJECT} says so")),
            None => {}
        }
    }
    policy(config, request, view).map_or(Decision::Inject, Decision::Leave)
}

/// Whether the pod itself asks to be injected.
pub(crate) fn asks(view: &View) -> bool {
    let mut maps = [&view.metadata.labels, &view.metadata.annotations].into_iter();
    maps.any(|map| map.get(INJECT).is_some_and(|value| value == "true"))
}

/// What makes injecting impossible, whatever the pod asks for.
fn obstacle(config: &Config, request: &Request, view: &View) -> Option<String> {
    if view.metadata.annotations.contains_key(MIRROR) {
        return Some(
            "the pod is a mirror pod, which the kubelet deletes when it is changed".to_owned(),
        );
    }
    let (ours, spec) = (config.os.name(), &view.spec);
    let selected = spec.node_selector.get("kubernetes.io/os");
    let theirs = spec.os.name.as_ref().or(selected);
    if theirs.is_some_and(|theirs| theirs != ours) {
        return Some(format!("the images are for {ours}, the pod is not"));
    }
    if spec.host_network {
        return Some("the pod is in the host's network".to_owned());
    }
    if !config.ignored_namespaces.is_empty() {
        let namespace = request.namespace();
        if config.ignored_namespaces.contains(&namespace) {
            return Some(format!("the namespace {namespace} is ignored"));
        }
    }
    None
}

/// Why a pod that says nothing itself is not injected.
fn policy(config: &Config, request: &Request, view: &View) -> Option<String> {
    let is_selected = |selectors: &[LabelSelector]| {
        let mut selectors = selectors.iter();
        selectors.any(|selector| selector.matches(&view.metadata.labels))
    };
    if is_selected(&config.never_inject) {
        return Some("a selector of neverInject matches the pod".to_owned());
    }
    if is_selected(&config.always_inject) {
        return None;
    }
    let label = request.namespace_label(INJECT);
    let choice = label
        .and_then(|value| switch("the namespace's label", &value))
        .or_else(|| {
            let annotation = request.namespace_annotation(INJECT)?;
            switch("the namespace's annotation", &annotation)
        });
    match choice {
        Some(true) => None,
        Some(false) => Some(format!("the namespace's {INJECT} says so")),
        None if config.inject_by_default => None,
        None => Some(format!(
            "injectByDefault is false and the pod does not ask by {INJECT}"
        )),
    }
}

/// What a label or an annotation says; nothing if it is no answer.
fn switch(source: &str, value: &str) -> Option<bool> {
    match value {
        "true" => Some(true),
        "false" => Some(false),
        _ => {
            note(&format!(
                "{source} {INJECT} is neither true nor false, so it is ignored"
            ));
            None
        }
    }
}

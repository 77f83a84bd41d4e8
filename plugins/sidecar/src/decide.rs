//! Whether a pod is injected.

use podloom_plugin_sdk::Request;

use crate::config::Config;
use crate::json::inner;
use crate::selector::LabelSelector;
use crate::text::note;
use crate::view::View;

/// Key of the label or annotation, of a pod or its namespace, that says whether to inject: `true` or `false`.
pub(crate) const INJECT: &str = "sidecar.podloom.dev/inject";

pub(crate) const INJECT_LABEL: &str = "/metadata/labels/sidecar.podloom.dev~1inject";
pub(crate) const INJECT_ANNOTATION: &str = "/metadata/annotations/sidecar.podloom.dev~1inject";
pub(crate) const MIRROR: &str = "/metadata/annotations/kubernetes.io~1config.mirror";
const MIRROR_KEY: &str = "kubernetes.io/config.mirror";
pub(crate) const OS: &str = "/spec/os/name";
pub(crate) const NODE_OS: &str = "/spec/nodeSelector/kubernetes.io~1os";
pub(crate) const HOST_NETWORK: &str = "/spec/hostNetwork";
pub(crate) const LABELS: &str = "/metadata/labels";

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
    for (place, map) in [
        ("the pod's label ", &view.labels),
        ("the pod's annotation ", &view.annotations),
    ] {
        match map.get(INJECT).and_then(|value| switch(place, value)) {
            Some(true) => return Decision::Inject,
            Some(false) => return Decision::Strip([place, INJECT, " says so"].concat()),
            None => {}
        }
    }
    policy(config, request, view).map_or(Decision::Inject, Decision::Leave)
}

/// What makes injecting impossible, whatever the pod asks for.
fn obstacle(config: &Config, request: &Request, view: &View) -> Option<String> {
    if view.annotations.has(MIRROR_KEY) {
        return Some(
            "the pod is a mirror pod, which the kubelet deletes when it is changed".to_owned(),
        );
    }
    let (os, selector) = (view.spec.object("os"), view.spec.object("nodeSelector"));
    if let Some(os) = os.get("name").or_else(|| selector.get("kubernetes.io/os"))
        && inner(os) != Some(config.os.name())
    {
        return Some(["the images are for ", config.os.name(), ", the pod is not"].concat());
    }
    if view.spec.get("hostNetwork") == Some("true") {
        return Some("the pod is in the host's network".to_owned());
    }
    if !config.ignored_namespaces.is_empty() {
        let namespace = request.namespace();
        if config.ignored_namespaces.contains(&namespace) {
            return Some(["the namespace ", &namespace, " is ignored"].concat());
        }
    }
    None
}

/// Why a pod that says nothing itself is not injected.
fn policy(config: &Config, request: &Request, view: &View) -> Option<String> {
    let is_matched = |selectors: &[LabelSelector]| {
        selectors
            .iter()
            .any(|selector| selector.matches(&view.labels))
    };
    if is_matched(&config.never_inject) {
        return Some("a selector of neverInject matches the pod".to_owned());
    }
    if is_matched(&config.always_inject) {
        return None;
    }
    let default = request
        .namespace_label(INJECT)
        .and_then(|value| switch("the namespace's label ", &value))
        .or_else(|| {
            let value = request.namespace_annotation(INJECT)?;
            switch("the namespace's annotation ", &value)
        });
    match default {
        Some(true) => None,
        Some(false) => Some(["the namespace's ", INJECT, " says so"].concat()),
        None if config.inject_by_default => None,
        None => Some(
            [
                "injectByDefault is false and the pod does not ask by ",
                INJECT,
            ]
            .concat(),
        ),
    }
}

pub(crate) fn has_selectors(config: &Config) -> bool {
    !config.never_inject.is_empty() || !config.always_inject.is_empty()
}

/// What a label or an annotation says; nothing if it is no answer.
fn switch(place: &str, value: &str) -> Option<bool> {
    match inner(value).unwrap_or(value) {
        "true" => Some(true),
        "false" => Some(false),
        _ => {
            note(&[
                place,
                INJECT,
                " is neither true nor false, so it is not heard",
            ]);
            None
        }
    }
}

//! Whether a pod is injected.

use podloom_plugin_sdk::{Error, Pod, Request};

use crate::config::Config;
use crate::json::{Object, inner};
use crate::text::note;

/// Key of the label or annotation, of a pod or its namespace, that says whether to inject: `true` or `false`.
pub(crate) const INJECT: &str = "sidecar.podloom.dev/inject";

pub(crate) const INJECT_LABEL: &str = "/metadata/labels/sidecar.podloom.dev~1inject";
pub(crate) const INJECT_ANNOTATION: &str = "/metadata/annotations/sidecar.podloom.dev~1inject";
pub(crate) const MIRROR: &str = "/metadata/annotations/kubernetes.io~1config.mirror";
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

pub(crate) fn decide(config: &Config, request: &Request, pod: &Pod) -> Result<Decision, Error> {
    if let Some(reason) = obstacle(config, request, pod)? {
        return Ok(Decision::Leave(reason));
    }
    for (place, path) in [("label", INJECT_LABEL), ("annotation", INJECT_ANNOTATION)] {
        match switch(&["the pod's ", place].concat(), pod.get_json(path)?) {
            Some(true) => return Ok(Decision::Inject),
            Some(false) => {
                return Ok(Decision::Strip(
                    ["the pod's ", place, " ", INJECT, " says so"].concat(),
                ));
            }
            None => {}
        }
    }
    Ok(policy(config, request, pod)?.map_or(Decision::Inject, Decision::Leave))
}

/// What makes injecting impossible, whatever the pod asks for.
fn obstacle(config: &Config, request: &Request, pod: &Pod) -> Result<Option<String>, Error> {
    if pod.get_json(MIRROR)?.is_some() {
        return Ok(Some(
            "the pod is a mirror pod, which the kubelet deletes when it is changed".to_owned(),
        ));
    }
    let os = match pod.get_json(OS)? {
        None => pod.get_json(NODE_OS)?,
        os => os,
    };
    if let Some(os) = os
        && inner(&os) != Some(config.os.name())
    {
        return Ok(Some(
            ["the images are for ", config.os.name(), ", the pod is not"].concat(),
        ));
    }
    if pod.get_json(HOST_NETWORK)?.as_deref() == Some("true") {
        return Ok(Some("the pod is in the host's network".to_owned()));
    }
    if !config.ignored_namespaces.is_empty() {
        let namespace = request.namespace();
        if config.ignored_namespaces.contains(&namespace) {
            return Ok(Some(["the namespace ", &namespace, " is ignored"].concat()));
        }
    }
    Ok(None)
}

/// Why a pod that says nothing itself is not injected.
fn policy(config: &Config, request: &Request, pod: &Pod) -> Result<Option<String>, Error> {
    if has_selectors(config) {
        let labels = pod
            .get_json(LABELS)?
            .and_then(|text| Object::parse(&text))
            .unwrap_or_default();
        if config
            .never_inject
            .iter()
            .any(|selector| selector.matches(&labels))
        {
            return Ok(Some("a selector of neverInject matches the pod".to_owned()));
        }
        if config
            .always_inject
            .iter()
            .any(|selector| selector.matches(&labels))
        {
            return Ok(None);
        }
    }
    let default = switch("the namespace's label", request.namespace_label(INJECT)).or_else(|| {
        switch(
            "the namespace's annotation",
            request.namespace_annotation(INJECT),
        )
    });
    Ok(match default {
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
    })
}

pub(crate) fn has_selectors(config: &Config) -> bool {
    !config.never_inject.is_empty() || !config.always_inject.is_empty()
}

/// What a label or an annotation says; nothing if it is missing or no answer.
fn switch(place: &str, value: Option<String>) -> Option<bool> {
    let value = value?;
    match inner(&value).unwrap_or(&value) {
        "true" => Some(true),
        "false" => Some(false),
        _ => {
            note(&[
                place,
                " ",
                INJECT,
                " is neither true nor false, so it is not heard",
            ]);
            None
        }
    }
}

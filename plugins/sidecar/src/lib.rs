//! The standard plugin `sidecar`: injects containers, with their volumes and pull secrets, into pods that want them.
//!
//! What it injects it records in an annotation of the pod, so that a later run keeps, updates or removes exactly that.

mod config;
mod containers;
mod injection;
mod plan;
mod security;
mod validate;
mod view;
mod volumes;

use podloom_plugin_sdk::prelude::*;
use podloom_plugin_sdk::{LabelSelector, path};

pub use config::Config;
use config::VolumeNames;
use injection::Injection;
use view::{Spec, View};

/// The plugin.
pub struct Plugin;

podloom_plugin_sdk::mutator!(Plugin, schema = "config.schema.json");

impl Mutator for Plugin {
    type Config = Config;
    const NAME: &str = "sidecar";
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &str = "Injects sidecar containers, their volumes and pull secrets";

    fn needs(config: &Config) -> Needs {
        view::needs(config)
    }

    fn validate(config: &Config) -> Vec<String> {
        validate::errors(config)
    }

    fn prepare(config: &mut Config) {
        for sidecar in &mut config.containers {
            sidecar.completed = containers::complete(sidecar, config.os);
            let of_pod = ["volumeMounts", "volumeDevices"];
            let is_same =
                sidecar.token.is_none() && !of_pod.iter().any(|it| sidecar.completed.has(it));
            sidecar.json = is_same.then(|| sidecar.completed.to_json());
        }
        config.fields = view::fields(config);
        config.hash = injection::hash(config);
        config.volume_names = VolumeNames::of(config);
    }

    fn mutate(config: &Config, request: &Request, pod: &Pod) -> Result<(), Rejection> {
        let mut view = View::read(config, pod)?;
        match decide(config, request, &view) {
            Decision::Inject => inject(config, request, pod, view),
            Decision::Leave(reason) => {
                tell(asks(&view), &format!("not injected: {reason}"));
                Ok(())
            }
            Decision::Strip(reason) => {
                note(&format!("not injected: {reason}"));
                Injection::begin(config, pod, &mut view)?.finish()
            }
        }
    }
}

/// Tells the user about something that the pod does not get: as a warning if it asked for it.
pub(crate) fn tell(has_asked: bool, text: &str) {
    if has_asked { warn(text) } else { note(text) }
}

fn inject(config: &Config, request: &Request, pod: &Pod, mut view: View) -> Result<(), Rejection> {
    let mut injection = Injection::begin(config, pod, &mut view)?;
    let spec = &mut view.spec;
    let steps = plan::plan(&mut injection, request, spec);
    if !steps.is_empty() || config.containers.is_empty() {
        let volumes = volumes::add(&mut injection, &steps)?;
        add_pull_secrets(&mut injection, spec)?;
        containers::write(&mut injection, &steps, spec, &volumes)?;
        containers::add_to_containers(&mut injection, spec, &volumes)?;
    }
    injection.finish()
}

/// Adds pull secrets to a list that the pod has. Making one before the API server has seen the pod would keep it from copying the
/// service account's.
fn add_pull_secrets(injection: &mut Injection<'_>, spec: &Spec) -> Result<(), Error> {
    let secrets = &injection.config.image_pull_secrets;
    if secrets.is_empty() {
        return Ok(());
    }
    let theirs = spec.image_pull_secrets.first();
    // The API server sets the priority after it has copied the service account's: so then that one has none.
    if !theirs.is_some_and(|secret| secret.has("name")) && spec.priority.is_null() {
        note(
            "no pull secret is added: the pod has none of its own, so the service account's are used",
        );
        return Ok(());
    }
    for secret in secrets {
        let place = path::element(config::PULL_SECRETS, "name", secret.text("name"));
        injection.put(place, &secret.clone().into())?;
    }
    Ok(())
}

/// Key of the label or annotation, of a pod or its namespace, that says whether to inject: `true` or `false`.
const INJECT: &str = "sidecar.podloom.dev/inject";

/// Key of the annotation of a pod that a node runs by itself.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// What to do with a pod, and why.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    /// Bring it to what is configured.
    Inject,
    /// Touch nothing, not even what was injected before.
    Leave(String),
    /// The pod itself refuses: take out what was injected before.
    Strip(String),
}

fn decide(config: &Config, request: &Request, view: &View) -> Decision {
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

#[cfg(test)]
mod tests;

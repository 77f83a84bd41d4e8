//! The standard plugin `sidecar`: injects containers, with their volumes and pull secrets, into pods that want them.
//!
//! What it injects it records in an annotation of the pod, so that a later run keeps, updates or removes exactly that.

mod additions;
mod build;
mod config;
mod containers;
mod decide;
mod defaults;
mod injection;
mod lists;
mod merge;
mod names;
mod needs;
mod plan;
mod ports;
mod record;
mod security;
mod validate;
mod view;
mod volumes;

#[cfg(test)]
mod tests;

use podloom_plugin_sdk::path;
use podloom_plugin_sdk::prelude::*;

pub use config::Config;
use config::{Prepared, VolumeNames};
use decide::Decision;
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
        needs::needs(config)
    }

    fn validate(config: &Config) -> Vec<String> {
        validate::errors(config)
    }

    fn prepare(config: &mut Config) {
        for sidecar in &mut config.containers {
            sidecar.completed = build::complete(sidecar, config.os);
            sidecar.json = (!build::has_mounts(sidecar)).then(|| sidecar.completed.to_json());
        }
        config.prepared = Prepared {
            fields: view::fields(config),
            hash: record::hash::hash(config),
            names: VolumeNames::of(config),
        };
    }

    fn mutate(config: &Config, request: &Request, pod: &Pod) -> Result<(), Rejection> {
        let mut view = View::read(config, pod)?;
        match decide::decide(config, request, &view) {
            Decision::Inject => inject(config, request, pod, view),
            Decision::Leave(reason) => {
                tell(decide::asks(&view), &format!("not injected: {reason}"));
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
        additions::add(&mut injection, spec, &volumes)?;
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
        let place = path::element(names::PULL_SECRETS, "name", secret.text("name"));
        injection.put(place, &secret.clone().into())?;
    }
    Ok(())
}

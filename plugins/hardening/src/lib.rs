//! The standard plugin `hardening`: brings pods up to a Pod Security Standard, or rejects them with every reason at once.
//!
//! The pod is read once, everything that is to be changed or rejected is found out, then done.
//! It runs last in a chain, so that containers injected before it are covered.

mod beyond;
mod config;
mod context;
mod exempt;
mod inherit;
mod plan;
mod policy;
mod read_only_root;
mod unfixable;
mod validate;
mod view;

#[cfg(test)]
mod tests;

use podloom_plugin_sdk::evictable;
use podloom_plugin_sdk::prelude::*;

pub use crate::config::Config;
use crate::config::{Mode, Profile};
use crate::plan::Plan;
use crate::policy::Policy;
use crate::view::{Container, View};

/// On the API server's image of a pod that a node runs by itself. The kubelet deletes one that differs from its file.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The plugin.
pub struct Hardening;

podloom_plugin_sdk::mutator!(Hardening, schema = "config.schema.json");

impl Mutator for Hardening {
    type Config = Config;
    const NAME: &str = "hardening";
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &str =
        "Brings pods up to a Pod Security Standard, or rejects them with the reasons";

    fn needs(config: &Config) -> Needs {
        needs(config)
    }

    fn validate(config: &Config) -> Vec<String> {
        validate::errors(config)
    }

    fn prepare(config: &mut Config) {
        config.fields = view::fields(config);
    }

    fn mutate(config: &Config, request: &Request, pod: &Pod) -> Result<(), Rejection> {
        if config.mode == Mode::Off {
            return Ok(());
        }
        let mut view = View::read(config, pod)?;
        if exempt::apply(&config.exemptions, request, &mut view) {
            return Ok(());
        }
        let mirror = view.metadata.annotations.contains_key(MIRROR);
        if mirror {
            note("the pod is a mirror of one that its node runs: checked, never changed");
        }
        let policy = Policy::new(config, &view, !mirror);

        let mut plan = Plan::default();
        check_pod(&policy, &view, &mut plan);
        inherit::check(&policy, &view, &mut plan);
        for container in view.containers.iter().filter(|container| !container.exempt) {
            check_container(&policy, container, &mut plan);
        }
        unfixable::check_annotations(&policy, &view, pod, &mut plan)?;
        if policy.writable {
            beyond::fill(&policy, &view, &mut plan);
        }
        let done = plan.carry_out(config, pod);
        beyond::report(&policy, &view);
        done
    }
}

fn check_pod(policy: &Policy, view: &View, plan: &mut Plan) {
    let selected = view.spec.node_selector.get("kubernetes.io/os");
    if selected.is_some_and(|os| os == "windows") && !policy.windows {
        warn(
            "/spec/nodeSelector asks for Windows, but /spec/os/name does not say windows: treated as a Linux pod, set it",
        );
    }
    unfixable::check_pod(policy, view, plan);
    context::check_any(policy, &view.context, plan);
}

fn check_container(policy: &Policy, container: &Container, plan: &mut Plan) {
    context::check_any(policy, &container.context, plan);
    context::check_container(policy, &container.context, plan);
    unfixable::check_container(policy, container, plan);
}

fn needs(config: &Config) -> Needs {
    let mut needs = Needs::default();
    if config.mode == Mode::Off {
        return needs;
    }
    needs = needs.read("/spec").read("/metadata/annotations");
    if config.asks_for_labels() {
        needs = needs.read("/metadata/labels");
    }
    if config.mode == Mode::Warn {
        return needs;
    }
    let inherited = config.profile == Profile::Restricted
        || config.force
        || config.run_as_user.is_some()
        || config.run_as_group.is_some()
        || config.seccomp_profile.is_some();
    let read_only = config.read_only_root_filesystem.is_some();
    if inherited || config.fs_group.is_some() {
        needs = needs.write("/spec/securityContext");
    }
    for list in ["/spec/containers", "/spec/initContainers"] {
        if inherited || read_only {
            needs = needs.write(format!("{list}/*/securityContext"));
        }
        if read_only {
            needs = needs.write(format!("{list}/*/volumeMounts"));
        }
    }
    if let Some(read_only) = &config.read_only_root_filesystem {
        needs = needs.write("/spec/volumes");
        if read_only.safe_to_evict == Some(true) {
            needs = needs.write(evictable::PATH);
        }
    }
    if config.automount_service_account_token.is_some() {
        needs = needs.write("/spec/automountServiceAccountToken");
    }
    if config.enable_service_links.is_some() {
        needs = needs.write("/spec/enableServiceLinks");
    }
    needs
}

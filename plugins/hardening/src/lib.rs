//! The standard plugin `hardening`: brings pods up to a Pod Security Standard, or refuses them with every reason at once.
//!
//! The pod is read once, everything that is to be changed or refused is found out, then done.
//! It runs last in a chain, so that containers injected before it are covered.

mod beyond;
mod config;
mod context;
mod exempt;
mod inherit;
mod plan;
mod policy;
mod read_only_root;
mod unmendable;
mod validate;
mod view;

#[cfg(test)]
mod tests;

use std::mem::ManuallyDrop;

use podloom_plugin_sdk::{Mutator, Needs, Pod, Rejection, Request, note};

pub use crate::config::Config;
use crate::config::{Mode, Profile};
use crate::context::Place;
use crate::plan::Plan;
use crate::policy::Policy;
use crate::view::{Container, Spec, View};

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
        "Brings pods up to a Pod Security Standard, or refuses them with the reasons";

    fn needs(config: &Config) -> Needs {
        needs(config)
    }

    fn validate(config: &Config) -> Vec<String> {
        validate::validate(config)
    }

    fn prepare(config: &mut Config) {
        config.fields = view::fields(config);
    }

    fn mutate(config: &Config, request: &Request, pod: &Pod) -> Result<(), Rejection> {
        if config.mode == Mode::Off {
            return Ok(());
        }
        let text = view::text(pod, config)?;
        // The instance ends with this call, so taking the view apart would be for nothing.
        let mut view = ManuallyDrop::new(view::read(&text)?);
        let View {
            spec,
            containers,
            metadata,
        } = &mut *view;
        if exempt::apply(&config.exemptions, request, pod, spec, containers)? {
            return Ok(());
        }
        let annotations = &metadata.annotations.0;
        let mirror = annotations.iter().any(|key| key == MIRROR);
        if mirror {
            note("the pod is a mirror of one that its node runs: checked, never changed");
        }
        let policy = Policy::new(config, spec, containers, !mirror);

        let mut plan = Plan::default();
        check_pod(&policy, spec, &mut plan);
        inherit::check(&policy, spec, containers, &mut plan);
        for container in containers.iter().filter(|container| !container.exempt) {
            check_container(&policy, container, &mut plan);
        }
        unmendable::check_annotations(&policy, annotations, containers, pod, &mut plan)?;
        if policy.writable {
            beyond::fill(&policy, spec, containers, &mut plan);
        }
        beyond::report(config, spec, containers);
        plan.carry_out(config, pod)
    }
}

fn check_pod(policy: &Policy, spec: &Spec, plan: &mut Plan) {
    if spec.node_selector.os.as_deref() == Some("windows") && !policy.windows {
        note(
            "/spec/nodeSelector asks for Windows, but /spec/os/name does not say windows: treated as a Linux pod, set it",
        );
    }
    unmendable::check_pod(policy, spec, plan);
    let place = Place {
        context: &spec.security_context,
        writable: true,
    };
    context::check_any(policy, &place, plan);
}

fn check_container(policy: &Policy, container: &Container, plan: &mut Plan) {
    let place = Place {
        context: &container.security_context,
        writable: policy.writable && container.writable,
    };
    context::check_any(policy, &place, plan);
    context::check_container(policy, &place, plan);
    unmendable::check_container(policy, container, plan);
}

fn needs(config: &Config) -> Needs {
    let mut needs = Needs::default();
    if config.mode == Mode::Off {
        return needs;
    }
    needs = needs.read("/spec").read("/metadata/annotations");
    if config
        .exemptions
        .iter()
        .any(|exemption| !exemption.match_labels.0.is_empty())
    {
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
    for list in ["/spec/containers/*/", "/spec/initContainers/*/"] {
        if inherited || read_only {
            needs = needs.write([list, "securityContext"].concat());
        }
        if read_only {
            needs = needs.write([list, "volumeMounts"].concat());
        }
    }
    if read_only {
        needs = needs.write("/spec/volumes");
    }
    if config.automount_service_account_token.is_some() {
        needs = needs.write("/spec/automountServiceAccountToken");
    }
    if config.enable_service_links.is_some() {
        needs = needs.write("/spec/enableServiceLinks");
    }
    needs
}

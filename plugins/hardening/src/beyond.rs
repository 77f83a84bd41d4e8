//! What goes beyond the standards: defaults to fill in, and reports.

use podloom_plugin_sdk::note;

use crate::config::{Config, Report};
use crate::plan::{Plan, at};
use crate::policy::Policy;
use crate::read_only_root::{self, mount_paths};
use crate::view::{Container, Resources, Spec, Volume};

/// Where containers find their service account's token.
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// How the API server's own volumes for that token begin; it takes any such volume for its own.
const TOKEN_VOLUME: &str = "kube-api-access-";

/// Fills in what is configured and the pod does not say.
pub(crate) fn fill(policy: &Policy, spec: &Spec, containers: &[Container], plan: &mut Plan) {
    let config = policy.config;
    if let (Some(fill), None, false) = (
        config.fs_group,
        spec.security_context.fs_group,
        policy.windows,
    ) {
        plan.fill(&spec.security_context, "fsGroup", &fill.to_string());
    }
    if config.enable_service_links.is_some() && spec.enable_service_links.is_none() {
        plan.set("/spec/enableServiceLinks".to_owned(), "false");
    }
    if config.automount_service_account_token.is_some()
        && spec.automount_service_account_token.is_none()
    {
        if mounts_token(spec, containers) {
            note(
                "/spec/automountServiceAccountToken: left as it is, since the pod mounts a token itself",
            );
        } else {
            plan.set("/spec/automountServiceAccountToken".to_owned(), "false");
        }
    }
    if let (Some(read_only), false) = (&config.read_only_root_filesystem, policy.windows) {
        read_only_root::fill(read_only, spec, containers, plan);
    }
}

fn mounts_token(spec: &Spec, containers: &[Container]) -> bool {
    let is_token = |volume: &Volume| {
        let named = volume
            .name
            .as_deref()
            .is_some_and(|name| name.starts_with(TOKEN_VOLUME));
        named
            || volume
                .projected
                .sources
                .iter()
                .any(|source| source.service_account_token)
    };
    spec.volumes.iter().any(is_token)
        || containers
            .iter()
            .any(|container| mount_paths(container).any(|path| path == TOKEN_PATH))
}

/// Notes what is asked for.
pub(crate) fn report(config: &Config, spec: &Spec, containers: &[Container]) {
    for report in &config.report {
        match report {
            Report::HostUsers if spec.host_users != Some(false) => {
                note("/spec/hostUsers: not false, so root in a container is root on the node");
            }
            Report::HostUsers => {}
            // Resources of the whole pod stand for those of its containers.
            Report::Resources if spec.resources => {}
            _ => {
                for container in containers.iter().filter(|container| !container.exempt) {
                    report_container(*report, container);
                }
            }
        }
    }
}

fn report_container(report: Report, container: &Container) {
    let Resources { limits, requests } = container.resources;
    let image = container.image.as_deref().unwrap_or_default();
    let pinned = image.contains('@');
    let (field, finding) = match report {
        // Requests default to the limits.
        Report::Resources if !limits && !requests => ("resources", ": neither requests nor limits"),
        Report::Resources if !limits => ("resources", ": no limits"),
        Report::LatestTag if !pinned && is_latest(image) => (
            "image",
            ": the tag latest, or none, names another image over time",
        ),
        Report::Digest if !pinned => ("image", ": not pinned by a digest"),
        Report::PullPolicy
            if !pinned && container.image_pull_policy.as_deref() != Some("Always") =>
        {
            (
                "imagePullPolicy",
                ": not Always, though no digest pins the image: a node may run an old copy",
            )
        }
        _ => return,
    };
    note(&[&at(container.path(), field), finding].concat());
}

fn is_latest(image: &str) -> bool {
    let name = image.rsplit('/').next().unwrap_or_default();
    name.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

//! What goes beyond the standards: defaults to fill in, and reports.

use podloom_plugin_sdk::note;

use crate::config::{Config, Report};
use crate::plan::Plan;
use crate::policy::Policy;
use crate::read_only_root::{self, mount_paths};
use crate::view::{Container, View};

/// Where containers find their service account's token.
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// How the API server's own volumes for that token begin; it takes any such volume for its own.
const TOKEN_VOLUME: &str = "kube-api-access-";

/// Fills in what is configured and the pod does not say.
pub(crate) fn fill(policy: &Policy, view: &View, plan: &mut Plan) {
    let (config, spec) = (policy.config, &view.spec);
    if let Some(group) = config.fs_group
        && view.context.settings.fs_group.is_none()
        && !policy.windows
    {
        plan.fill(&view.context, "fsGroup", group);
    }
    if config.enable_service_links.is_some() && spec.enable_service_links.is_none() {
        plan.set("/spec/enableServiceLinks", false);
    }
    if config.automount_service_account_token.is_some()
        && spec.automount_service_account_token.is_none()
    {
        let path = "/spec/automountServiceAccountToken";
        if mounts_token(view) {
            note(&format!(
                "{path}: left as it is, since the pod mounts a token itself"
            ));
        } else {
            plan.set(path, false);
        }
    }
    if let Some(read_only) = &config.read_only_root_filesystem
        && !policy.windows
    {
        read_only_root::fill(read_only, view, plan);
    }
}

fn mounts_token(view: &View) -> bool {
    let mut volumes = view.spec.volumes.iter();
    let mut mounts = view.containers.iter().flat_map(mount_paths);
    volumes.any(|volume| {
        let mut sources = volume.get("projected").get("sources").items().iter();
        volume.text("name").starts_with(TOKEN_VOLUME)
            || sources.any(|source| !source.get("serviceAccountToken").is_null())
    }) || mounts.any(|path| path == TOKEN_PATH)
}

/// Notes what is asked for.
pub(crate) fn report(config: &Config, view: &View) {
    for report in &config.report {
        match report {
            Report::HostUsers if view.spec.host_users != Some(false) => {
                note("/spec/hostUsers: not false, so root in a container is root on the node");
            }
            Report::HostUsers => {}
            // Resources of the whole pod stand for those of its containers.
            Report::Resources if view.spec.resources.is_some() => {}
            _ => {
                for container in view.containers.iter().filter(|container| !container.exempt) {
                    report_container(*report, container);
                }
            }
        }
    }
}

fn report_container(report: Report, container: &Container) {
    let limits = container.resources.limits.is_some();
    let requests = container.resources.requests.is_some();
    let pinned = || container.image.contains('@');
    let (field, finding) = match report {
        // Requests default to the limits.
        Report::Resources if !limits && !requests => ("resources", "neither requests nor limits"),
        Report::Resources if !limits => ("resources", "no limits"),
        Report::LatestTag if !pinned() && is_latest(&container.image) => (
            "image",
            "the tag latest, or none, names another image over time",
        ),
        Report::Digest if !pinned() => ("image", "not pinned by a digest"),
        Report::PullPolicy if !pinned() && container.image_pull_policy != "Always" => (
            "imagePullPolicy",
            "not Always, though no digest pins the image: a node may run an old copy",
        ),
        _ => return,
    };
    note(&format!("{}/{field}: {finding}", container.path));
}

fn is_latest(image: &str) -> bool {
    let name = image.rsplit('/').next().unwrap_or_default();
    name.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

//! What goes beyond the standards: defaults to fill in, and reports.

use std::collections::BTreeMap;

use podloom_plugin_sdk::json::{Object, Value};
use podloom_plugin_sdk::path::covers;
use podloom_plugin_sdk::{Findings, note, path, warn};

use crate::Plan;
use crate::config::{Config, NamedAccounts, ReadOnlyRoot, Report};
use crate::policy::{Policy, matches_any, service_account};
use crate::view::{Container, View};

/// Where containers find their service account's token.
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// How the names of the API server's own volumes for that token begin; it takes any such volume for its own.
const TOKEN_VOLUME: &str = "kube-api-access-";
/// The account of pods that name none. Nobody grants it anything on purpose.
const DEFAULT_ACCOUNT: &str = "default";

/// Fills in what is configured and the pod does not say.
pub(crate) fn fill(policy: &Policy, view: &View, plan: &mut Plan) {
    let (config, spec) = (policy.config, &view.spec);
    if let Some(group) = config.fs_group
        && view.context.settings.fs_group.is_none()
        && !policy.windows
    {
        plan.fill(&view.context, "fsGroup", group);
    }
    if config.enable_service_links.is_some() && spec.enable_service_links != Some(false) {
        let path = "/spec/enableServiceLinks";
        // In a review, true is what the API server has set in every pod that does not say.
        if spec.enable_service_links.is_some() && spec.scheduler_name.is_none() {
            warn(&format!(
                "{path}: true is overwritten, since in a cluster it cannot be told from the API server's default: exempt the pod to keep it"
            ));
        }
        plan.set(path, false);
    }
    if config.automount_service_account_token.is_some()
        && spec.automount_service_account_token.is_none()
    {
        keep_token_out(config, view, plan);
    }
    if let Some(read_only) = &config.read_only_root_filesystem
        && !policy.windows
    {
        make_root_read_only(read_only, view, plan);
    }
}

/// Keeps the service account's token out of a pod, unless the pod needs it.
fn keep_token_out(config: &Config, view: &View, plan: &mut Plan) {
    let path = "/spec/automountServiceAccountToken";
    let mut volumes = view.spec.volumes.iter();
    // In a review the API server has mounted the token before, in every pod, so it is too late to keep it out.
    let is_mounted = volumes.any(|volume| volume.text("name").starts_with(TOKEN_VOLUME));
    let account = service_account(view);
    let may_keep = account != DEFAULT_ACCOUNT && config.named_accounts != Some(NamedAccounts::Deny);
    if is_mounted {
        // A pod that names its account has what it is meant to have.
        if !may_keep {
            note(&format!(
                "{path}: the API server has mounted the token already: set it to false at the service account {account}, or in the pod"
            ));
        }
    } else if mounts_token(view) {
        note(&format!(
            "{path}: left as it is, since the pod mounts a token itself"
        ));
    } else if may_keep {
        note(&format!(
            "{path}: left as it is, since the pod names the service account {account}: set it to false if the pod does not use the Kubernetes API"
        ));
    } else {
        plan.set(path, false);
    }
}

fn mounts_token(view: &View) -> bool {
    let mut volumes = view.spec.volumes.iter();
    let mut mounts = view.containers.iter().flat_map(mount_paths);
    volumes.any(|volume| {
        let mut sources = volume.get("projected").get("sources").items().iter();
        sources.any(|source| !source.get("serviceAccountToken").is_null())
    }) || mounts.any(|path| path == TOKEN_PATH)
}

/// Notes what is asked for.
pub(crate) fn report(policy: &Policy, view: &View) {
    let mut found = Findings::default();
    for report in &policy.config.report {
        match report {
            Report::HostUsers if view.spec.host_users != Some(false) => {
                found.add(
                    "/spec/hostUsers",
                    "not false, so root in a container is root on the node",
                );
            }
            Report::HostUsers => {}
            // Resources of the whole pod stand for those of its containers.
            Report::Resources if view.spec.resources.is_some() => {}
            // Windows has no such groups.
            Report::RootGroup if policy.windows => {}
            _ => {
                for container in view.containers.iter().filter(|container| !container.exempt) {
                    match report {
                        Report::RootGroup => {
                            report_root_group(policy.config, view, container, &mut found);
                        }
                        _ => report_container(*report, container, &mut found),
                    }
                }
            }
        }
    }
    for text in found.notes() {
        note(&text);
    }
}

fn report_container(report: Report, container: &Container, found: &mut Findings) {
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
        Report::PullPolicy if !pinned() && !is_always_pulled(container) => (
            "imagePullPolicy",
            "not Always, though no digest pins the image: a node may run an old copy",
        ),
        _ => return,
    };
    found.add(&path::join(&container.path, field), finding);
}

/// A runtime takes the group of a numeric user from the image's /etc/passwd, and group 0 for a user that is not in it.
fn report_root_group(config: &Config, view: &View, container: &Container, found: &mut Findings) {
    let (own, pod) = (&container.context.settings, &view.context.settings);
    let user = own.run_as_user.or(pod.run_as_user).or(config.run_as_user);
    let group = own
        .run_as_group
        .or(pod.run_as_group)
        .or(config.run_as_group);
    if let (Some(user @ 1..), None) = (user, group) {
        let path = container.context.field("runAsGroup");
        let finding = format!(
            "not set, so user {user} is in group 0 (root) unless the image's /etc/passwd names its group: set runAsGroup"
        );
        found.add(&path, &finding);
    }
}

/// Where nothing is said, the API server sets `Always` for the tag latest, and another policy for other tags.
fn is_always_pulled(container: &Container) -> bool {
    match container.image_pull_policy.as_str() {
        "" => is_latest(&container.image),
        policy => policy == "Always",
    }
}

fn is_latest(image: &str) -> bool {
    let name = image.rsplit('/').next().unwrap_or_default();
    name.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

const DEFAULT_PATHS: [&str; 3] = ["/tmp", "/var/run", "/var/cache"];
const DEFAULT_SIZE: &str = "64Mi";

/// The longest name that a volume can have, less room for a number.
const NAME_LENGTH: usize = 63 - 4;

/// The names of the pod's volumes, each with the first number with which it may still be free.
type Names = BTreeMap<String, usize>;

/// Makes the root file system of each container read-only that does not say, and gives it its directories.
pub(crate) fn make_root_read_only(config: &ReadOnlyRoot, view: &View, plan: &mut Plan) {
    let mut names = Names::new();
    for volume in &view.spec.volumes {
        names.insert(volume.text("name").to_owned(), 2);
    }
    let mut writable = Findings::default();
    let may_change = |container: &&Container| container.context.writable && !container.exempt;
    for container in view.containers.iter().filter(may_change) {
        let context = &container.context;
        let field = "readOnlyRootFilesystem";
        match context.settings.read_only_root_filesystem {
            // Where it was read-only already, its author has seen to what it writes.
            Some(true) => {}
            Some(false) => writable.add(&context.field(field), "explicitly false, left as it is"),
            None => {
                plan.fill(context, field, true);
                add_directories(config, container, &mut names, plan);
            }
        }
    }
    for text in writable.notes() {
        note(&text);
    }
}

fn add_directories(
    config: &ReadOnlyRoot,
    container: &Container,
    names: &mut Names,
    plan: &mut Plan,
) {
    let mut mounted: Vec<&str> = mount_paths(container).collect();
    for (path, size) in directories(config, container) {
        if mounted.iter().any(|mount| covers(mount, path)) {
            continue;
        }
        mounted.push(path);
        let name = unused_name(names, container, path);
        let volume = Object::from([
            ("name", Value::from(name.as_str())),
            ("emptyDir", Object::from([("sizeLimit", size)]).into()),
        ]);
        plan.set("/spec/volumes/-", volume);
        plan.empty_dirs.push(name.clone());
        let mount = Object::from([("name", name.as_str()), ("mountPath", path)]);
        plan.set(format!("{}/volumeMounts/-", container.path), mount);
    }
}

/// The directories that a container gets, with their sizes.
fn directories<'c>(config: &'c ReadOnlyRoot, container: &Container) -> Vec<(&'c str, &'c str)> {
    let Some(configured) = &config.empty_dirs else {
        return DEFAULT_PATHS.map(|path| (path, DEFAULT_SIZE)).to_vec();
    };
    let image = &container.image;
    let meant = configured
        .iter()
        .filter(|directory| directory.images.is_empty() || matches_any(&directory.images, image));
    meant
        .map(|directory| {
            (
                directory.mount_path.trim_end_matches('/'),
                directory.size_limit.as_deref().unwrap_or(DEFAULT_SIZE),
            )
        })
        .collect()
}

/// The paths at which a container mounts volumes, without a slash at the end.
pub(crate) fn mount_paths(container: &Container) -> impl Iterator<Item = &str> {
    let mounts = container.volume_mounts.iter();
    let paths = mounts.filter_map(|mount| mount.mount_path.as_deref());
    paths.map(|path| path.trim_end_matches('/'))
}

/// A name of container and path, so that it stays the same when other containers come; with a number where it is taken.
/// It is valid even if the container's name is not: the API server refuses that one, and says so.
fn unused_name(names: &mut Names, container: &Container, path: &str) -> String {
    let letters = container.name.chars().chain(path.chars());
    let letters = letters.map(|character| {
        if character.is_ascii_alphanumeric() {
            character.to_ascii_lowercase()
        } else {
            '-'
        }
    });
    let mut stem = "writable-".to_owned();
    stem.extend(letters.take(NAME_LENGTH - stem.len()));
    let stem = stem.trim_end_matches('-');
    let Some(mut next) = names.get(stem).copied() else {
        names.insert(stem.to_owned(), 2);
        return stem.to_owned();
    };
    loop {
        let suffix = format!("-{next}");
        let room = NAME_LENGTH + 4 - suffix.len();
        let name = stem.get(..room).unwrap_or(stem).to_owned() + &suffix;
        next += 1;
        if !names.contains_key(&name) {
            names.insert(stem.to_owned(), next);
            names.insert(name.clone(), 2);
            return name;
        }
    }
}

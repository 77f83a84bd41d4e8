//! What the API server would reject in a pod, found in the configuration before a pod is made from it.
//!
//! Only what merging can cause, or what a schema cannot express: the API server checks the rest itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::api::core::v1::{ContainerPort, EnvVar, ResourceRequirements, VolumeMount};
use podloom_api::{PodSettings, SidecarContainer, VersionConfig, names};
use podloom_syntax::names as syntax;

use super::merge::EffectiveConfig;
use super::similar::{self, shown, without_case};

/// How many problems are kept of one version and of one BrowserConfig; a message names a dozen of them.
pub(crate) const FOUND_MAX: usize = 256;

/// Lists everything that is wrong with one version, a sentence each that says what to change.
pub(super) fn problems(
    template: Option<&PodSettings>,
    version: &VersionConfig,
    effective: &EffectiveConfig,
) -> Vec<String> {
    let mut found = Found::default();
    for settings in template.into_iter().chain([&version.settings]) {
        repeated_in_one_list(settings, &mut found);
    }
    container_names(effective, &mut found);
    metadata(&effective.settings, &mut found);
    let settings = &effective.settings;
    let volumes = settings.volumes.iter().flatten();
    let volumes: BTreeSet<&str> = volumes.map(|volume| volume.name.as_str()).collect();
    let browser = names::container::BROWSER;
    variables(browser, &settings.env, &mut found);
    mounts(browser, &settings.volume_mounts, &volumes, &mut found);
    resources(browser, settings.resources.as_ref(), &mut found);
    for container in containers(settings) {
        let name = &container.name;
        variables(name, &container.env, &mut found);
        mounts(name, &container.volume_mounts, &volumes, &mut found);
        resources(name, container.resources.as_ref(), &mut found);
        ports(
            name,
            container.ports.as_deref().unwrap_or_default(),
            &mut found,
        );
    }
    for sidecar in effective.settings.sidecars.iter().flatten() {
        if sidecar.restart_policy.is_some() {
            found.note(format_args!(
                "sidecar {} has a restartPolicy, move it to initContainers to keep it running or remove the policy",
                shown(&sidecar.name)
            ));
        }
    }
    found.0
}

/// The first [`FOUND_MAX`] problems; more are not even formatted.
#[derive(Default)]
struct Found(Vec<String>);

impl Found {
    fn note(&mut self, problem: fmt::Arguments<'_>) {
        if self.0.len() < FOUND_MAX {
            self.0.push(problem.to_string());
        }
    }
}

/// The names of one map, grouped by their spelling in lower case.
///
/// Two names that differ only in case would make a lookup that ignores case ambiguous.
pub(super) struct Twins<'a> {
    what: &'static str,
    names: BTreeMap<String, Vec<&'a str>>,
}

impl<'a> Twins<'a> {
    pub(super) fn new<T>(what: &'static str, map: &'a BTreeMap<String, T>) -> Self {
        let mut names: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for name in map.keys() {
            names.entry(without_case(name)).or_default().push(name);
        }
        Self { what, names }
    }

    /// Returns what is wrong if another name of the map differs only in case.
    pub(super) fn of(&self, name: &str) -> Option<String> {
        let same = self.names.get(&without_case(name))?;
        (same.len() > 1).then(|| {
            let (what, same) = (self.what, similar::both(same));
            format!("{what} {same} differ only in case, rename or merge them")
        })
    }
}

/// Reports entries of one list that have the same merge key: merging would drop one of them in silence.
fn repeated_in_one_list(settings: &PodSettings, found: &mut Found) {
    let mut report = |list: &str, repeated: Vec<&str>| {
        for key in repeated {
            found.note(format_args!(
                "{list} names {} twice, rename or remove one",
                shown(key)
            ));
        }
    };
    report("volumes", repeated_key(&settings.volumes, |it| &it.name));
    report("sidecars", repeated_key(&settings.sidecars, |it| &it.name));
    let init = repeated_key(&settings.init_containers, |it| &it.name);
    report("initContainers", init);
    report(
        "volumeMounts",
        repeated_key(&settings.volume_mounts, mount_path),
    );
    for container in containers(settings) {
        report(
            &format!("volumeMounts of container {}", shown(&container.name)),
            repeated_key(&container.volume_mounts, mount_path),
        );
    }
}

fn mount_path(mount: &VolumeMount) -> &str {
    &mount.mount_path
}

fn repeated_key<'a, T>(list: &'a Option<Vec<T>>, key: fn(&'a T) -> &'a str) -> Vec<&'a str> {
    repeated(list.iter().flatten().map(key))
}

/// Returns each text that is repeated, once, in the order of the repetitions.
fn repeated<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let (mut seen, mut known, mut repeated) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for text in texts {
        if !seen.insert(text) && known.insert(text) {
            repeated.push(text);
        }
    }
    repeated
}

/// All containers of a pod share one set of names.
fn container_names(effective: &EffectiveConfig, found: &mut Found) {
    let names: Vec<&str> = containers(&effective.settings)
        .map(|container| container.name.as_str())
        .collect();
    for name in &names {
        if syntax::dns_label(name).is_err() {
            found.note(format_args!(
                "container name {:?} is invalid, use at most 63 lower-case letters, digits and dashes, a letter or digit at both ends",
                shown(name)
            ));
        }
    }
    if names.contains(&names::container::BROWSER) {
        found.note(format_args!(
            "a sidecar or init container is called browser, rename it: the browser container has that name"
        ));
    }
    for name in repeated(names.into_iter()) {
        if name != names::container::BROWSER {
            found.note(format_args!(
                "a sidecar and an init container are both called {}, rename one",
                shown(name)
            ));
        }
    }
}

fn metadata(settings: &PodSettings, found: &mut Found) {
    for key in settings.annotations.iter().flat_map(BTreeMap::keys) {
        // The API server takes annotation keys in any case, but checks their form in lower case.
        if !is_qualified_name(&key.to_lowercase()) {
            found.note(format_args!(
                "{:?} is not a valid annotation key",
                shown(key)
            ));
        }
    }
    for (field, map) in [
        ("label", &settings.labels),
        ("nodeSelector", &settings.node_selector),
    ] {
        for (key, value) in map.iter().flatten() {
            if !is_qualified_name(key) {
                found.note(format_args!("{:?} is not a valid {field} key", shown(key)));
            }
            if names::label_value(value) != *value {
                found.note(format_args!(
                    "the value of {field} {} is invalid, use at most 63 letters, digits, dashes, dots and underscores, a letter or digit at both ends",
                    shown(key)
                ));
            }
        }
    }
}

pub(super) fn containers(settings: &PodSettings) -> impl Iterator<Item = &SidecarContainer> {
    settings
        .init_containers
        .iter()
        .chain(&settings.sidecars)
        .flatten()
}

// What is wrong with a container. The browser is one, but has no struct of its own.

fn variables(container: &str, env: &Option<Vec<EnvVar>>, found: &mut Found) {
    let container = shown(container);
    for variable in env.iter().flatten() {
        if !is_env_name(&variable.name) {
            found.note(format_args!("container {container} has an environment variable called {:?}, use printable characters without =", shown(&variable.name)));
        }
    }
}

fn mounts(
    container: &str,
    mounts: &Option<Vec<VolumeMount>>,
    volumes: &BTreeSet<&str>,
    found: &mut Found,
) {
    let container = shown(container);
    for mount in mounts.iter().flatten() {
        if !volumes.contains(mount.name.as_str()) {
            found.note(format_args!(
                "container {container} mounts volume {} at {}, add it to volumes",
                shown(&mount.name),
                shown(&mount.mount_path)
            ));
        }
    }
}

fn resources(container: &str, resources: Option<&ResourceRequirements>, found: &mut Found) {
    let container = shown(container);
    let all = resources.into_iter();
    let all = all.flat_map(|all| all.limits.iter().chain(&all.requests));
    for key in all.flat_map(BTreeMap::keys) {
        if !is_qualified_name(key) {
            found.note(format_args!(
                "container {container} has a resource called {:?}, use a name such as cpu or example.com/gpu",
                shown(key)
            ));
        }
    }
}

fn ports(container: &str, ports: &[ContainerPort], found: &mut Found) {
    let container = shown(container);
    for port in ports.iter().map(|port| port.container_port) {
        if !(1..=65_535).contains(&port) {
            found.note(format_args!(
                "container {container} has port {port}, use 1 to 65535"
            ));
        }
    }
    for port in repeated(ports.iter().filter_map(|port| port.name.as_deref())) {
        found.note(format_args!(
            "container {container} has two ports called {}, rename one",
            shown(port)
        ));
    }
}

/// Returns whether a text is printable ASCII without `=`, as Kubernetes wants the names of variables.
pub(super) fn is_env_name(name: &str) -> bool {
    syntax::env_name(name).is_ok()
}

/// Returns whether a text can be a label's key: a name, or a domain, a slash and a name.
pub(super) fn is_qualified_name(key: &str) -> bool {
    syntax::label_key(key).is_ok()
}

#[cfg(test)]
mod tests;

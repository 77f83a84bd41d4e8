//! The effective configuration of one version: its own settings merged over those of the template.
//!
//! Entries keep the order of the template; new entries follow in the order of the version.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ContainerPort, EnvVar, HostAlias, Toleration, VolumeMount};
use podloom_api::{PodSettings, SidecarContainer, VersionConfig};

/// A version's configuration with all that the template adds.
pub type EffectiveConfig = VersionConfig;

/// Merges a version over its template.
///
/// Maps and lists are merged by key, a value of one meaning is taken as a whole, and empty maps and lists are left out.
/// No struct is completed by `..`, so that a new field does not compile until it has its rule.
pub fn merge(template: Option<&PodSettings>, version: &VersionConfig) -> EffectiveConfig {
    let none = PodSettings::default();
    let base = template.unwrap_or(&none);
    let VersionConfig {
        image,
        settings: over,
    } = version;
    let settings = PodSettings {
        labels: merge_maps(&base.labels, &over.labels),
        annotations: merge_maps(&base.annotations, &over.annotations),
        env: merge_env(both(&base.env, &over.env)),
        resources: pick(&base.resources, &over.resources),
        image_pull_policy: pick(&base.image_pull_policy, &over.image_pull_policy),
        volumes: merge_lists(
            both(&base.volumes, &over.volumes),
            |volume| &volume.name,
            last,
        ),
        volume_mounts: merge_mounts(both(&base.volume_mounts, &over.volume_mounts)),
        node_selector: merge_maps(&base.node_selector, &over.node_selector),
        affinity: pick(&base.affinity, &over.affinity),
        tolerations: merge_lists(both(&base.tolerations, &over.tolerations), whole, last),
        host_aliases: merge_lists(
            both(&base.host_aliases, &over.host_aliases),
            |alias| &alias.ip,
            unite_host_names,
        ),
        init_containers: merge_containers(both(&base.init_containers, &over.init_containers)),
        sidecars: merge_containers(both(&base.sidecars, &over.sidecars)),
        privileged: pick(&base.privileged, &over.privileged),
        image_pull_secrets: merge_lists(
            both(&base.image_pull_secrets, &over.image_pull_secrets),
            |secret| &secret.name,
            last,
        ),
        dns_config: pick(&base.dns_config, &over.dns_config),
        security_context: pick(&base.security_context, &over.security_context),
        working_dir: pick(&base.working_dir, &over.working_dir),
        command: pick(&base.command, &over.command),
        args: pick(&base.args, &over.args),
    };
    EffectiveConfig {
        image: image.clone(),
        settings,
    }
}

/// Takes the version's value if it is set, else the template's: for scalars, and for values that only make sense as a whole.
fn pick<T: Clone>(base: &Option<T>, over: &Option<T>) -> Option<T> {
    over.as_ref().or(base.as_ref()).cloned()
}

fn merge_maps(
    base: &Option<BTreeMap<String, String>>,
    over: &Option<BTreeMap<String, String>>,
) -> Option<BTreeMap<String, String>> {
    let merged: BTreeMap<_, _> = base
        .iter()
        .chain(over)
        .flatten()
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    (!merged.is_empty()).then_some(merged)
}

/// The template's entries, then the version's.
fn both<'a, T>(
    base: &'a Option<Vec<T>>,
    over: &'a Option<Vec<T>>,
) -> impl Iterator<Item = &'a T> + use<'a, T> {
    base.iter().chain(over).flatten()
}

/// Merges entries that have a key: one entry per key, where its first stands, united from all that have the key.
///
/// An entry without a twin stays as it is. Lists may be long, so entries are found by an index and not by search.
fn merge_lists<'a, T: Clone + 'a, K: Ord>(
    items: impl Iterator<Item = &'a T>,
    key: impl Fn(&'a T) -> K,
    unite: impl Fn(&'a T, &[&'a T]) -> T,
) -> Option<Vec<T>> {
    let mut groups: Vec<(&T, Vec<&T>)> = Vec::new();
    let mut places: BTreeMap<K, usize> = BTreeMap::new();
    for item in items {
        let place = *places.entry(key(item)).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, more)) => more.push(item),
            None => groups.push((item, Vec::new())),
        }
    }
    let merged: Vec<T> = groups
        .into_iter()
        .map(|(first, more)| {
            if more.is_empty() {
                first.clone()
            } else {
                unite(first, &more)
            }
        })
        .collect();
    (!merged.is_empty()).then_some(merged)
}

/// Takes the last entry of a key as a whole.
fn last<T: Clone>(first: &T, more: &[&T]) -> T {
    more.last().copied().unwrap_or(first).clone()
}

fn merge_env<'a>(variables: impl Iterator<Item = &'a EnvVar>) -> Option<Vec<EnvVar>> {
    merge_lists(variables, |variable| &variable.name, last)
}

fn merge_mounts<'a>(mounts: impl Iterator<Item = &'a VolumeMount>) -> Option<Vec<VolumeMount>> {
    merge_lists(mounts, |mount| &mount.mount_path, last)
}

fn merge_containers<'a>(
    containers: impl Iterator<Item = &'a SidecarContainer>,
) -> Option<Vec<SidecarContainer>> {
    merge_lists(containers, |container| &container.name, unite_containers)
}

/// Each field is that of the last container that sets it; lists are merged.
fn unite_containers(first: &SidecarContainer, more: &[&SidecarContainer]) -> SidecarContainer {
    let all = || std::iter::once(first).chain(more.iter().copied());
    SidecarContainer {
        name: first.name.clone(),
        image: more.last().copied().unwrap_or(first).image.clone(),
        command: last_set(all().map(|it| &it.command)),
        args: last_set(all().map(|it| &it.args)),
        working_dir: last_set(all().map(|it| &it.working_dir)),
        ports: merge_lists(
            all().flat_map(|it| it.ports.iter().flatten()),
            number_and_protocol,
            last,
        ),
        env: merge_env(all().flat_map(|it| it.env.iter().flatten())),
        volume_mounts: merge_mounts(all().flat_map(|it| it.volume_mounts.iter().flatten())),
        image_pull_policy: last_set(all().map(|it| &it.image_pull_policy)),
        resources: last_set(all().map(|it| &it.resources)),
        security_context: last_set(all().map(|it| &it.security_context)),
        restart_policy: last_set(all().map(|it| &it.restart_policy)),
    }
}

fn last_set<'a, T: Clone + 'a>(
    values: impl DoubleEndedIterator<Item = &'a Option<T>>,
) -> Option<T> {
    values.rev().flatten().next().cloned()
}

/// The protocol of a port defaults to TCP.
fn number_and_protocol(port: &ContainerPort) -> (i32, &str) {
    let protocol = port.protocol.as_deref().unwrap_or("TCP");
    (port.container_port, protocol)
}

/// Tolerations are equal if all of their fields are.
fn whole(toleration: &Toleration) -> impl Ord + use<'_> {
    let Toleration {
        effect,
        key,
        operator,
        toleration_seconds,
        value,
    } = toleration;
    (effect, key, operator, toleration_seconds, value)
}

fn unite_host_names(first: &HostAlias, more: &[&HostAlias]) -> HostAlias {
    let all = std::iter::once(first).chain(more.iter().copied());
    HostAlias {
        ip: first.ip.clone(),
        hostnames: merge_lists(
            all.flat_map(|alias| alias.hostnames.iter().flatten()),
            String::as_str,
            last,
        ),
    }
}

#[cfg(test)]
mod tests;

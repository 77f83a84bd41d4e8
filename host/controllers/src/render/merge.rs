//! The effective configuration of one version: its own settings merged over the template's.
//!
//! The order is always the template's, then what is new in the version's order.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ContainerPort, EnvVar, HostAlias, VolumeMount};
use podloom_api::{BrowserConfigSpec, PodSettings, SidecarContainer, VersionConfig};
use sha2::{Digest, Sha256};

/// A version's configuration with everything in it that the template adds.
pub type EffectiveConfig = VersionConfig;

/// Merges a version over its template.
///
/// Maps and lists are merged by key, what is a value of one meaning is taken whole, and empty maps and lists vanish.
pub fn merge(template: Option<&PodSettings>, version: &VersionConfig) -> EffectiveConfig {
    let none = PodSettings::default();
    let (base, over) = (template.unwrap_or(&none), &version.settings);
    let settings = PodSettings {
        labels: merge_maps(&base.labels, &over.labels),
        annotations: merge_maps(&base.annotations, &over.annotations),
        env: merge_env(&base.env, &over.env),
        resources: pick(&base.resources, &over.resources),
        image_pull_policy: pick(&base.image_pull_policy, &over.image_pull_policy),
        volumes: merge_lists(
            &base.volumes,
            &over.volumes,
            |a, b| a.name == b.name,
            replace,
        ),
        volume_mounts: merge_mounts(&base.volume_mounts, &over.volume_mounts),
        node_selector: merge_maps(&base.node_selector, &over.node_selector),
        affinity: pick(&base.affinity, &over.affinity),
        tolerations: merge_lists(&base.tolerations, &over.tolerations, PartialEq::eq, replace),
        host_aliases: merge_lists(
            &base.host_aliases,
            &over.host_aliases,
            |a, b| a.ip == b.ip,
            unite_host_names,
        ),
        init_containers: merge_containers(&base.init_containers, &over.init_containers),
        sidecars: merge_containers(&base.sidecars, &over.sidecars),
        privileged: pick(&base.privileged, &over.privileged),
        image_pull_secrets: merge_lists(
            &base.image_pull_secrets,
            &over.image_pull_secrets,
            |a, b| a.name == b.name,
            replace,
        ),
        dns_config: pick(&base.dns_config, &over.dns_config),
        security_context: pick(&base.security_context, &over.security_context),
        working_dir: pick(&base.working_dir, &over.working_dir),
        command: pick(&base.command, &over.command),
        args: pick(&base.args, &over.args),
    };
    EffectiveConfig {
        image: version.image.clone(),
        settings,
    }
}

/// Returns the hash that `status.version` publishes: 16 hex digits over all that a BrowserConfig amounts to.
///
/// It changes when any of its pods would, and not when something is only written elsewhere, in the version instead of the template.
pub fn config_version(spec: &BrowserConfigSpec) -> String {
    let mut hash = Sha256::new();
    for (browser, versions) in &spec.browsers {
        for (version, config) in versions {
            let effective = merge(spec.template.as_ref(), config);
            let entry = serde_json::json!([browser, version, effective]);
            hash.update(entry.to_string());
        }
    }
    let digest = hash.finalize();
    digest
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Scalars and values of one meaning: the version's if set, else the template's.
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

/// Merges lists whose entries have a key: one entry per key, where its first stands, combined with those that follow.
///
/// Lists are short, so each entry is looked for among those before it.
fn merge_lists<T: Clone>(
    base: &Option<Vec<T>>,
    over: &Option<Vec<T>>,
    same: impl Fn(&T, &T) -> bool,
    combine: impl Fn(&mut T, &T),
) -> Option<Vec<T>> {
    let mut merged: Vec<T> = Vec::new();
    for item in base.iter().chain(over).flatten() {
        match merged.iter_mut().find(|known| same(known, item)) {
            Some(known) => combine(known, item),
            None => merged.push(item.clone()),
        }
    }
    (!merged.is_empty()).then_some(merged)
}

fn replace<T: Clone>(base: &mut T, over: &T) {
    base.clone_from(over);
}

fn merge_env(base: &Option<Vec<EnvVar>>, over: &Option<Vec<EnvVar>>) -> Option<Vec<EnvVar>> {
    merge_lists(base, over, |a, b| a.name == b.name, replace)
}

fn merge_mounts(
    base: &Option<Vec<VolumeMount>>,
    over: &Option<Vec<VolumeMount>>,
) -> Option<Vec<VolumeMount>> {
    merge_lists(base, over, |a, b| a.mount_path == b.mount_path, replace)
}

fn merge_containers(
    base: &Option<Vec<SidecarContainer>>,
    over: &Option<Vec<SidecarContainer>>,
) -> Option<Vec<SidecarContainer>> {
    merge_lists(
        base,
        over,
        |a, b| a.name == b.name,
        |base, over| {
            *base = merge_container(base, over);
        },
    )
}

fn merge_container(base: &SidecarContainer, over: &SidecarContainer) -> SidecarContainer {
    SidecarContainer {
        name: over.name.clone(),
        image: over.image.clone(),
        command: pick(&base.command, &over.command),
        args: pick(&base.args, &over.args),
        working_dir: pick(&base.working_dir, &over.working_dir),
        ports: merge_lists(&base.ports, &over.ports, same_port, replace),
        env: merge_env(&base.env, &over.env),
        volume_mounts: merge_mounts(&base.volume_mounts, &over.volume_mounts),
        image_pull_policy: pick(&base.image_pull_policy, &over.image_pull_policy),
        resources: pick(&base.resources, &over.resources),
        security_context: pick(&base.security_context, &over.security_context),
        restart_policy: pick(&base.restart_policy, &over.restart_policy),
    }
}

/// A port without protocol is one of TCP.
fn same_port(a: &ContainerPort, b: &ContainerPort) -> bool {
    let protocol = |port: &ContainerPort| port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
    a.container_port == b.container_port && protocol(a) == protocol(b)
}

fn unite_host_names(base: &mut HostAlias, over: &HostAlias) {
    base.hostnames = merge_lists(&base.hostnames, &over.hostnames, PartialEq::eq, replace);
}

#[cfg(test)]
mod tests;

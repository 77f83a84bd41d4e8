//! What violates the profile and no plugin can fix: the host's namespaces, ports and paths, volumes, sysctls, annotations.

use std::collections::BTreeMap;

use podloom_plugin_sdk::json::Object;
use podloom_plugin_sdk::{Error, Pod, path};

use crate::Plan;
use crate::config::PROBE_HOSTS;
use crate::policy::Policy;
use crate::view::{Container, View};

const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// How annotations begin that name profiles.
const PROFILES: [&str; 3] = [APP_ARMOR, SECCOMP_POD, SECCOMP];

/// The sources of volumes that the profile `restricted` allows.
const ALLOWED_SOURCES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// Safe sysctls, each with the version that first allowed it.
const SYSCTLS: [(&str, u16); 12] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
];

/// Checks the pod apart from its containers and annotations.
pub(crate) fn check_pod(policy: &Policy, view: &View, plan: &mut Plan) {
    let spec = &view.spec;
    let host_namespaces = [
        ("/spec/hostNetwork", spec.host_network),
        ("/spec/hostPID", spec.host_pid),
        ("/spec/hostIPC", spec.host_ipc),
    ];
    for (path, value) in host_namespaces {
        if value {
            plan.violation(path, "must not be true: remove it");
        }
    }
    for volume in &spec.volumes {
        if let Some(source) = forbidden_source(policy, volume) {
            let volume = path::element("/spec/volumes", "name", volume.text("name"));
            plan.violation(
                &path::field(&volume, source),
                "this kind of volume is forbidden: use another, such as a persistentVolumeClaim",
            );
        }
    }
    for sysctl in &view.context.settings.sysctls {
        let mut safe = SYSCTLS.iter();
        if !safe.any(|(name, minor)| *name == sysctl.name && policy.since(*minor)) {
            let list = view.context.field("sysctls");
            let path = path::element(&list, "name", &sysctl.name);
            plan.violation(&path, "this sysctl is not a safe one: remove it");
        }
    }
}

/// The source that makes a volume a forbidden one: a path of the host before others.
fn forbidden_source<'v>(policy: &Policy, volume: &'v Object) -> Option<&'v str> {
    if volume.has("hostPath") {
        return Some("hostPath");
    }
    let fields = volume.fields().filter(|(_, value)| !value.is_null());
    let sources = fields.map(|(key, _)| key).filter(|key| *key != "name");
    let sources: Vec<&str> = sources.collect();
    let mut allowed = sources.iter().filter(|key| ALLOWED_SOURCES.contains(key));
    if !policy.restricted_since(0) || allowed.next().is_some() {
        return None;
    }
    sources.first().copied()
}

/// Checks a container's ports, probes and hooks.
pub(crate) fn check_container(policy: &Policy, container: &Container, plan: &mut Plan) {
    for (index, port) in container.ports.iter().enumerate() {
        if port.host_port != 0 {
            let path = format!("{}/ports/{index}/hostPort", container.path);
            let remedy = match policy.host_network {
                true => {
                    "must not be set: remove it, and use a Service, unless hostNetwork is why it is there"
                }
                false => "must not be set: remove it, and use a Service",
            };
            plan.violation(&path, remedy);
        }
    }
    if !policy.since(PROBE_HOSTS) {
        return;
    }
    let handlers = [
        ("livenessProbe", &container.liveness_probe),
        ("readinessProbe", &container.readiness_probe),
        ("startupProbe", &container.startup_probe),
        ("lifecycle/postStart", &container.lifecycle.post_start),
        ("lifecycle/preStop", &container.lifecycle.pre_stop),
    ];
    for (field, handler) in handlers {
        for (kind, address) in [
            ("httpGet", &handler.http_get),
            ("tcpSocket", &handler.tcp_socket),
        ] {
            if !address.host.is_empty() {
                let path = format!("{}/{field}/{kind}/host", container.path);
                plan.violation(
                    &path,
                    "must not be set: remove it, and the pod itself is asked",
                );
            }
        }
    }
}

/// Checks the annotations that once named profiles.
pub(crate) fn check_annotations(
    policy: &Policy,
    view: &View,
    pod: &Pod,
    plan: &mut Plan,
) -> Result<(), Error> {
    let keys = view.metadata.annotations.keys();
    let keys = keys.filter(|key| PROFILES.iter().any(|profile| key.starts_with(profile)));
    let mut keys = keys.peekable();
    if keys.peek().is_none() {
        return Ok(());
    }
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    // Of two with one name, which the API server refuses, the first counts.
    for (index, container) in view.containers.iter().enumerate().rev() {
        places.insert(container.name.clone(), index);
    }
    let container_of = |name: &str| {
        let index = places.get(name).copied()?;
        // A container without a name is none that an annotation could name.
        let found = view.containers.get(index);
        found.filter(|container| !container.name.is_empty())
    };
    for key in keys {
        let app_armor = key.strip_prefix(APP_ARMOR);
        let seccomp = key.strip_prefix(SECCOMP).filter(|_| !policy.since(19));
        let counts = match (app_armor, seccomp) {
            (Some(name), _) => container_of(name).is_none_or(|container| !container.exempt),
            (_, Some(name)) => container_of(name).is_some_and(|container| !container.exempt),
            _ => key == SECCOMP_POD && !policy.since(19),
        };
        if !counts {
            continue;
        }
        let profile = pod.annotations().get(key)?.unwrap_or_default();
        let allowed = match profile.as_str() {
            "" => app_armor.is_some(),
            "docker/default" => app_armor.is_none(),
            "runtime/default" => true,
            other => other.starts_with("localhost/"),
        };
        if !allowed {
            plan.violation(
                &path::field("/metadata/annotations", key),
                "must be runtime/default or localhost/<profile>: remove it",
            );
        }
    }
    Ok(())
}

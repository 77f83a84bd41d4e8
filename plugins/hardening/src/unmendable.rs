//! What violates the profile and no plugin can mend: the host's namespaces, ports and paths, volumes, sysctls, annotations.

use std::borrow::Cow;

use podloom_plugin_sdk::{Error, Pod, path};

use crate::plan::{Plan, at};
use crate::policy::{PROBE_HOSTS, Policy};
use crate::view::{Container, Spec, Volume};

const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// The sources of volumes that the profile `restricted` allows, besides `projected`.
const ALLOWED_SOURCES: [&str; 8] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
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
pub(crate) fn check_pod(policy: &Policy, spec: &Spec, plan: &mut Plan) {
    let host_namespaces = [
        ("hostNetwork", spec.host_network),
        ("hostPID", spec.host_pid),
        ("hostIPC", spec.host_ipc),
    ];
    for (field, value) in host_namespaces {
        if value == Some(true) {
            plan.violation(&at("/spec", field), "must not be true: remove it");
        }
    }
    for volume in &spec.volumes {
        if let Some(source) = forbidden_source(policy, volume) {
            let mut place = String::from("/spec/volumes");
            path::push_element(
                &mut place,
                "name",
                volume.name.as_deref().unwrap_or_default(),
            );
            path::push(&mut place, source);
            plan.violation(
                &place,
                "this kind of volume is forbidden: use another, such as a persistentVolumeClaim",
            );
        }
    }
    for sysctl in &spec.security_context.sysctls {
        let name = sysctl.name.as_deref().unwrap_or_default();
        if !SYSCTLS
            .iter()
            .any(|(safe, minor)| *safe == name && policy.since(*minor))
        {
            let mut place = at(&spec.security_context.path, "sysctls");
            path::push_element(&mut place, "name", name);
            plan.violation(&place, "this sysctl is not a safe one: remove it");
        }
    }
}

/// The source that makes a volume a forbidden one: a path of the host before others.
fn forbidden_source<'v>(policy: &Policy, volume: &'v Volume<'v>) -> Option<&'v str> {
    let sources = || {
        volume
            .sources
            .iter()
            .filter(|source| source.present)
            .map(|source| &*source.field)
    };
    if let Some(host_path) = sources().find(|source| *source == "hostPath") {
        return Some(host_path);
    }
    let allowed =
        volume.projected.present || sources().any(|source| ALLOWED_SOURCES.contains(&source));
    if allowed || !policy.restricted_since(0) {
        return None;
    }
    sources().next()
}

/// Checks a container's ports, probes and hooks.
pub(crate) fn check_container(policy: &Policy, container: &Container, plan: &mut Plan) {
    for (index, port) in container.ports.iter().enumerate() {
        if port.host_port.is_some_and(|port| port != 0) {
            let field = ["ports/", &index.to_string(), "/hostPort"].concat();
            plan.violation(
                &at(container.path(), &field),
                "must not be set: remove it, and use a Service",
            );
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
        let addresses = [
            ("httpGet/host", &handler.http_get),
            ("tcpSocket/host", &handler.tcp_socket),
        ];
        for (host, address) in addresses {
            if address.host.as_deref().is_some_and(|host| !host.is_empty()) {
                let place = at(&at(container.path(), field), host);
                plan.violation(
                    &place,
                    "must not be set: remove it, and the pod itself is asked",
                );
            }
        }
    }
}

/// Checks the annotations that once named profiles.
pub(crate) fn check_annotations(
    policy: &Policy,
    keys: &[Cow<'_, str>],
    containers: &[Container],
    pod: &Pod,
    plan: &mut Plan,
) -> Result<(), Error> {
    let container_of = |name: &str| {
        containers
            .iter()
            .find(|container| container.name.as_deref() == Some(name))
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
        let mut place = String::from("/metadata/annotations");
        path::push(&mut place, key);
        let profile: String = pod.get(&place)?.unwrap_or_default();
        let allowed = match profile.as_str() {
            "" => app_armor.is_some(),
            "docker/default" => app_armor.is_none(),
            "runtime/default" => true,
            other => other.starts_with("localhost/"),
        };
        if !allowed {
            plan.violation(
                &place,
                "must be runtime/default or localhost/<profile>: remove it",
            );
        }
    }
    Ok(())
}

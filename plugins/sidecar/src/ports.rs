//! Ports: the containers of a pod share one network.

use std::fmt;

use podloom_plugin_sdk::json::Value;
use podloom_plugin_sdk::note;

use crate::config::{OnPortConflict, Placement, Sidecar};
use crate::injection::Injection;
use crate::lists::List;
use crate::view::Spec;

/// What two ports have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clash {
    /// The API server refuses the pod.
    HostPort,
    /// Only one of the containers can listen.
    Number,
    /// Services and probes that say the name find one of them only.
    Name,
}

impl fmt::Display for Clash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HostPort => "host port",
            Self::Number => "port number",
            Self::Name => "port name",
        })
    }
}

/// Compares a container's ports with those of the containers that run at the same time.
pub(crate) fn check(injection: &mut Injection<'_>, sidecar: &Sidecar, spec: &Spec) {
    let ours = sidecar.container.get("ports").items();
    if ours.is_empty() || sidecar.placement == Placement::Init {
        return;
    }
    for list in [List::Containers, List::InitContainers] {
        for container in spec.list(list) {
            let other = &container.name;
            if other == sidecar.name() || injection.before.has(&list.element(other)) {
                // Itself, or one of ours: those were compared when the configuration was validated.
                continue;
            }
            if list == List::InitContainers && container.restart_policy != "Always" {
                // It has ended by then.
                continue;
            }
            if let Some(clash) = find(ours, container.ports.items()) {
                report(injection, clash, sidecar.name(), other);
            }
        }
    }
}

fn report(injection: &mut Injection<'_>, clash: Clash, ours: &str, theirs: &str) {
    let message = format!("containers {ours} and {theirs} have the same {clash}");
    if clash != Clash::HostPort && injection.config.on_port_conflict == OnPortConflict::Note {
        note(&message);
    } else {
        injection.denials.push(format!(
            "{message}: change the pod's, or opt out of the injection"
        ));
    }
}

/// The first thing that two lists of ports have in common, the worst first.
pub(crate) fn find(ours: &[Value], theirs: &[Value]) -> Option<Clash> {
    [Clash::HostPort, Clash::Number, Clash::Name]
        .into_iter()
        .find(|&clash| {
            let mut ours = ours.iter();
            ours.any(|our| theirs.iter().any(|their| is_clash(clash, our, their)))
        })
}

fn is_clash(clash: Clash, our: &Value, their: &Value) -> bool {
    let same = |key: &str| {
        let value = our.get(key);
        !value.is_null() && value.as_i64() != Some(0) && their.get(key) == value
    };
    let is_same_protocol = protocol(our) == protocol(their);
    match clash {
        Clash::Name => same("name"),
        Clash::Number => same("containerPort") && is_same_protocol,
        Clash::HostPort => {
            let is_same_address = same("hostIP") || is_any_address(our) || is_any_address(their);
            same("hostPort") && is_same_protocol && is_same_address
        }
    }
}

fn is_any_address(port: &Value) -> bool {
    matches!(
        port.get("hostIP").as_str(),
        None | Some("" | "0.0.0.0" | "::")
    )
}

fn protocol(port: &Value) -> &str {
    match port.get("protocol").as_str() {
        None | Some("") => "TCP",
        Some(protocol) => protocol,
    }
}

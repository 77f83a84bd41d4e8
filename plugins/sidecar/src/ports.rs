//! Ports: the containers of a pod share one network.

use crate::config::{OnPortConflict, Placement, Sidecar};
use crate::injection::Injection;
use crate::json::Object;
use crate::lists::{List, Lists};
use crate::text::{self, note};

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

impl Clash {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::HostPort => "host port",
            Self::Number => "port number",
            Self::Name => "port name",
        }
    }
}

/// Compares a container's ports with those of the containers that run at the same time.
#[inline(never)]
pub(crate) fn check(injection: &mut Injection<'_>, sidecar: &Sidecar, name: &str, lists: &Lists) {
    let ours = sidecar.container.objects("ports");
    if ours.is_empty() || sidecar.placement == Placement::Init {
        return;
    }
    for list in [List::Containers, List::InitContainers] {
        for container in lists.containers(list) {
            let other = container.string("name");
            if other == name || injection.before.has(&list.element(other)) {
                // Itself, or one of ours: those were compared when the configuration was validated.
                continue;
            }
            if list == List::InitContainers && container.string("restartPolicy") != "Always" {
                // It has ended by then.
                continue;
            }
            if let Some(clash) = find(&ours, &container.objects("ports")) {
                report(injection, clash, [name, " and ", other]);
            }
        }
    }
}

fn report(injection: &mut Injection<'_>, clash: Clash, containers: [&str; 3]) {
    let message = [
        "containers ",
        &containers.concat(),
        " have the same ",
        clash.name(),
    ]
    .concat();
    if clash != Clash::HostPort && injection.config.on_port_conflict == OnPortConflict::Note {
        note(&[&message]);
    } else {
        text::push(
            &mut injection.denials,
            &[&message, ": change the pod's, or opt out of the injection"],
        );
    }
}

/// The first thing that two lists of ports have in common, the worst first.
pub(crate) fn find(ours: &[Object], theirs: &[Object]) -> Option<Clash> {
    [Clash::HostPort, Clash::Number, Clash::Name]
        .into_iter()
        .find(|&clash| {
            ours.iter()
                .any(|our| theirs.iter().any(|their| is_clash(clash, our, their)))
        })
}

#[inline(never)]
fn is_clash(clash: Clash, our: &Object, their: &Object) -> bool {
    let same = |key: &str| {
        our.get(key)
            .is_some_and(|value| value != "null" && value != "0" && their.get(key) == Some(value))
    };
    let is_any = |port: &Object| matches!(port.string("hostIP"), "" | "0.0.0.0" | "::");
    match clash {
        Clash::Name => same("name"),
        Clash::Number => same("containerPort") && protocol(our) == protocol(their),
        Clash::HostPort => {
            same("hostPort")
                && protocol(our) == protocol(their)
                && (same("hostIP") || is_any(our) || is_any(their))
        }
    }
}

fn protocol(port: &Object) -> &str {
    match port.string("protocol") {
        "" => "TCP",
        protocol => protocol,
    }
}

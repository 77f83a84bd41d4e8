//! What to do with each configured container.

use std::fmt;

use podloom_plugin_sdk::json::Value;
use podloom_plugin_sdk::prelude::*;

use crate::config::{List, OnConflict, OnPortConflict, Placement, Sidecar};
use crate::injection::Injection;
use crate::tell;
use crate::view::Spec;

/// A configured container that the pod gets.
#[derive(Clone, Copy)]
pub(crate) struct Step<'a> {
    pub(crate) sidecar: &'a Sidecar,
    pub(crate) act: Act,
}

/// What to do with a configured container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// It is there, by this configuration.
    Keep,
    /// It is not there.
    Add,
    /// It is there, by another configuration.
    Update,
    /// The pod has one of its own, which gets what it lacks.
    Merge,
    /// The pod has one of its own, which goes.
    Replace,
}

/// Decides about each configured container, in order. What is skipped is missing, with a note.
pub(crate) fn plan<'a>(
    injection: &mut Injection<'a>,
    request: &Request,
    spec: &Spec,
) -> Vec<Step<'a>> {
    let mut steps = Vec::new();
    for sidecar in &injection.config.containers {
        if let Some(other) = elsewhere(sidecar, spec) {
            injection.denials.push(format!(
                "the pod has a container {} in {}, where the injected one cannot be: rename it",
                sidecar.name(),
                other.name()
            ));
            continue;
        }
        let Some(act) = choose(injection, sidecar, spec) else {
            continue;
        };
        if is_endless(request, spec, sidecar) {
            continue;
        }
        if act != Act::Keep && act != Act::Merge {
            check_ports(injection, sidecar, spec);
        }
        steps.push(Step { sidecar, act });
    }
    steps
}

/// The other list in which the container's name is taken.
fn elsewhere(sidecar: &Sidecar, spec: &Spec) -> Option<List> {
    let mut others = List::ALL.into_iter();
    others.find(|&list| list != sidecar.list() && spec.has(list, sidecar.name()))
}

fn choose(injection: &mut Injection<'_>, sidecar: &Sidecar, spec: &Spec) -> Option<Act> {
    if !spec.has(sidecar.list(), sidecar.name()) {
        return Some(Act::Add);
    }
    if injection.before.has(&sidecar.path()) {
        return Some(if injection.before.is_current {
            Act::Keep
        } else {
            Act::Update
        });
    }
    let own = format!("the pod's own container {}", sidecar.name());
    match sidecar.on_conflict {
        OnConflict::Skip => {
            let text = format!("{own} stays, and none is injected in its place");
            tell(injection.is_asked, &text);
            None
        }
        OnConflict::Merge => Some(Act::Merge),
        OnConflict::Replace => {
            note(&format!("{own} is replaced by the injected one"));
            Some(Act::Replace)
        }
        OnConflict::Deny => {
            let denial = format!("{own} has the name of an injected one: rename it");
            injection.denials.push(denial);
            None
        }
    }
}

/// Whether a classic sidecar would keep a pod from ever completing.
fn is_endless(request: &Request, spec: &Spec, sidecar: &Sidecar) -> bool {
    let completes = !matches!(spec.restart_policy.as_str(), "" | "Always");
    let is_endless =
        sidecar.placement == Placement::Classic && completes && request.kind() == "Pod";
    if is_endless {
        note(&format!(
            "container {} is not injected: as a classic sidecar it would keep the pod from completing; make it native",
            sidecar.name()
        ));
    }
    is_endless
}

/// What two ports have in common: the containers of a pod share one network.
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
fn check_ports(injection: &mut Injection<'_>, sidecar: &Sidecar, spec: &Spec) {
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
            if let Some(clash) = clash_of(ours, container.ports.items()) {
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
pub(crate) fn clash_of(ours: &[Value], theirs: &[Value]) -> Option<Clash> {
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

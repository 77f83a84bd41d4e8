//! What to do with each configured container.

use podloom_plugin_sdk::prelude::*;

use crate::config::{OnConflict, Placement, Sidecar};
use crate::injection::Injection;
use crate::lists::List;
use crate::ports;
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
            ports::check(injection, sidecar, spec);
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

//! What to do next about the kubeconfig of configured machines, and about the API server that it is for.

use jiff::Timestamp;
use podloom_engine::plan::later;

use super::{Case, Step};
use crate::cluster::action::{Action, Ask};
use crate::cluster::edit::Edit;
use crate::cluster::world::{SeenSecret, Settings, World};
use crate::im::ImState;

pub(super) fn step(case: Case<'_>) -> Step {
    let Case {
        world,
        settings,
        now,
        ..
    } = case;
    // With an update ahead, what IM says now is soon outdated. A refused one stops nothing.
    let is_updated_soon = matches!(case.edit, Edit::Send(_)) && world.known.refusal.is_none();
    if !world.is_configured() || world.rival.is_some() || is_updated_soon {
        return Step::Rest;
    }
    match &world.secret {
        SeenSecret::Unseen => return Step::Act(Action::ReadSecret),
        SeenSecret::Foreign => return Step::Wait(later(now, world.poll())),
        SeenSecret::Absent | SeenSecret::Ours(_) => {}
    }
    match world.is_stored() {
        true => probe(world, settings, now),
        false => store(case).or(probe_stored(world, settings, now)),
    }
}

/// Gets the kubeconfig and stores it.
fn store(case: Case<'_>) -> Step {
    let Case { world, now, .. } = case;
    if world.learned.kubeconfig.is_some() {
        return Step::Act(Action::Store);
    }
    if let Some(trouble) = world.kubeconfig_trouble()
        && now < trouble.next
    {
        return Step::Wait(trouble.next);
    }
    let is_configured = world
        .fresh(now)
        .is_some_and(|it| it.state == ImState::Configured);
    match &world.durable.id {
        Some(id) if is_configured && !world.is_unnamed() && world.resolved().is_some() => {
            case.ask(Ask::Outputs(id.clone()))
        }
        _ => Step::Rest,
    }
}

/// Probes with the Secret as it is, if it has a kubeconfig.
fn probe_stored(world: &World, settings: &Settings, now: Timestamp) -> Step {
    match world.has_kubeconfig() {
        true => probe(world, settings, now),
        false => Step::Rest,
    }
}

/// Asks the API server of the cluster once in each poll interval.
pub(super) fn probe(world: &World, settings: &Settings, now: Timestamp) -> Step {
    if !settings.probe {
        return Step::Rest;
    }
    let due = world.known.probe.at.map(|at| later(at, world.poll()));
    match due.filter(|due| now < *due) {
        Some(due) => Step::Wait(due),
        None if world.learned.is_probed => Step::Wait(later(now, world.poll())),
        None => Step::Act(Action::Probe),
    }
}

//! What to do next about a Cluster.

use jiff::Timestamp;
use podloom_api::names;
use podloom_engine::plan::{Plan, Then};

use super::action::{Action, Ask, Record};
use super::begin::begun;
use super::change::Change;
use super::edit::{Edit, edit};
use super::notices;
use super::status::status;
use super::step::{Case, Step, registered, release, step};
use super::view::View;
use super::world::{Settings, World};

/// Decides the next step for a Cluster, from its world alone.
pub(crate) fn plan(world: &World, settings: &Settings, now: Timestamp) -> Plan<Action> {
    // What was recorded in this pass is sent in this pass.
    if let Some(change) = world.learned.recorded {
        return Plan::act(Action::Ask(Ask::Change(change)));
    }
    // Nothing of it is ours.
    if world.is_deleted() && !world.has_finalizer() {
        return Plan::wait(Then::Change);
    }
    let edit = edit(world);
    let case = Case {
        world,
        edit: &edit,
        settings,
        now,
    };
    let step = next_step(case);
    // Whoever watches sees where it began, and whoever schedules that it is ours.
    let is_new = world.status().is_none_or(|status| status.state.is_none());
    if is_new && step.is_active() {
        return write(case);
    }
    match step {
        Step::Act(action) => return Plan::act(action),
        Step::Change(_) if world.learned.prepared.is_none() => return Plan::act(Action::Prepare),
        Step::Change(change) => return record(case, change),
        Step::Wait(_) | Step::Rest => {}
    }
    let write = write(case);
    match &write.action {
        Some(Action::WriteStatus(wanted)) if Some(&**wanted) == world.status() => {
            Plan::wait(then(world, &step, now))
        }
        _ => write,
    }
}

/// Writes the status.
fn write(case: Case<'_>) -> Plan<Action> {
    let Case {
        world,
        settings,
        now,
        edit,
    } = case;
    let view = View::of(world, edit, settings, now);
    let wanted = Box::new(status(&view, edit, now));
    Plan::act(Action::WriteStatus(wanted)).with_notices(notices::of_status(&view))
}

fn next_step(case: Case<'_>) -> Step {
    let world = case.world;
    if world.cluster.spec.paused {
        return Step::Rest;
    }
    if world.is_deleted() {
        return release(case);
    }
    match world.is_registered() {
        true => registered(case),
        false => step(case),
    }
}

/// Writes into the status what is about to be sent.
fn record(case: Case<'_>, change: Change) -> Plan<Action> {
    let Case {
        world,
        settings,
        now,
        edit,
    } = case;
    let mut next = world.clone();
    next.durable = begun(world, change, now);
    let view = View::of(&next, edit, settings, now);
    let status = Box::new(status(&view, &Edit::Same, now));
    Plan::act(Action::Record(Record { change, status })).with_notices(notices::of_status(&view))
}

/// When to look again.
fn then(world: &World, step: &Step, now: Timestamp) -> Then {
    if let Some(message) = &world.learned.metadata_rejected {
        return Then::Retry {
            reason: names::reason::METADATA_REFUSED,
            message: message.clone(),
            until: Timestamp::MAX,
        };
    }
    let then = match step {
        Step::Wait(at) => Then::At(*at),
        _ => Then::Change,
    };
    let deadline = world.deadline().filter(|at| now < *at);
    match deadline.filter(|_| !world.cluster.spec.paused) {
        Some(deadline) => then.by(deadline),
        None => then,
    }
}

#[cfg(test)]
pub(in crate::cluster) mod tests;

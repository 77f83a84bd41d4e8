//! What to do next about an infrastructure that exists, or did.

use podloom_api::names::infrastructure::reason;
use podloom_engine::plan::later;

use super::{Case, Step, repair};
use crate::cluster::action::Ask;
use crate::cluster::begin::is_new_edit;
use crate::cluster::change::Change;
use crate::cluster::edit::Edit;
use crate::cluster::memory::Ownership;
use crate::im::{ImState, InfrastructureId, Reading};

pub(super) fn step(case: Case<'_>, id: &InfrastructureId) -> Step {
    let Case { world, now, .. } = case;
    // What has the same id at another URL must not get our passwords.
    if world.known.owner == Ownership::ToAdd && !world.is_moved() {
        return case.ask(Ask::AddOwner(id.clone()));
    }
    let Some(reading) = world.fresh(now).filter(|_| !world.is_unnamed()) else {
        return read(case, id);
    };
    if let Some(step) = update(case, reading) {
        return step;
    }
    repair::step(case, id, reading)
}

/// Reads the state, or first the name: not right after a change, and after it was missing only once the interval is over.
pub(super) fn read(case: Case<'_>, id: &InfrastructureId) -> Step {
    let Case { world, now, .. } = case;
    let missing = world.known.missing_since;
    let again = missing.map(|since| later(since, world.poll()));
    let not_before = world.known.quiet.max(again);
    match not_before.filter(|at| now < *at) {
        Some(at) => Step::Wait(at),
        None if world.is_unnamed() => case.ask(Ask::Name(id.clone())),
        None => case.ask(Ask::State(id.clone())),
    }
}

/// Sends a changed template. IM would make surplus machines of one that comes while others are pending.
fn update(case: Case<'_>, reading: &Reading) -> Option<Step> {
    let Case {
        world,
        settings,
        now,
        ..
    } = case;
    if !matches!(case.edit, Edit::Send(_)) {
        return None;
    }
    if matches!(reading.state, ImState::Pending | ImState::Deleting) {
        return None;
    }
    let refusal = world.known.refusal.as_ref();
    if refusal.is_some_and(|it| it.reason == reason::TEMPLATE_REJECTED) {
        return None;
    }
    // After a restart, nobody knows what became of the last request.
    let is_forgotten = world.known.tried.is_none() && refusal.is_none();
    let is_lost = world.known.unsure.is_some() || is_forgotten;
    let last = world.durable.last_call_at().filter(|_| is_lost);
    // A request that waited for IM to come back may be carried out only then.
    let heard = world.known.heard_since;
    let since = match world.durable.under_way() {
        Some(_) => last.map(|last| last.max(heard.unwrap_or(now))),
        None => last,
    };
    let settled = since.map(|since| later(since, settings.settle));
    let retry = (!is_new_edit(world)).then(|| case.retry_at()).flatten();
    let due = settled.max(retry);
    Some(match due.filter(|due| now < *due) {
        // What IM says meanwhile is worth knowing.
        Some(due) => Step::Wait(due.min(later(now, world.poll()))),
        None => case.change(Change::Update),
    })
}

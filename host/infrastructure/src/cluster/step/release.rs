//! What to do next about a Cluster that is being deleted: its infrastructure goes first, then our finalizer.

use std::time::Duration;

use jiff::Timestamp;
use podloom_api::{DeletionPolicy, OperationKind};
use podloom_engine::plan::later;

use super::{Case, Step, create, existing};
use crate::cluster::action::{Action, Ask};
use crate::cluster::change::Change;
use crate::cluster::inputs::OnDelete;
use crate::cluster::memory::Ownership;
use crate::cluster::world::World;
use crate::im::{ImState, InfrastructureId, Reading};

/// How long IM may take at most to write the record of a deleted infrastructure back: as long as its database lets it wait for others.
const WRITTEN_BACK: Duration = Duration::from_secs(5);

/// How a Cluster ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Nothing is left of its infrastructure, or there never was one.
    Gone,
    /// Its infrastructure stays, since the spec says so.
    Orphaned,
    /// Its infrastructure may stay, and nobody knows of it any more.
    Abandoned,
    /// Its infrastructure is another Cluster's.
    Rival,
}

/// Returns how the Cluster ends, if nothing keeps it.
pub(crate) fn end(world: &World) -> Option<End> {
    let durable = &world.durable;
    let may_exist = durable.id.is_some() || durable.is_attempt_open();
    // Without a status, what was created may be forgotten. If it is bound to nothing, there is nowhere to look.
    let is_unknown = durable.operation.is_none() && !world.is_clean() && world.backend.is_some();
    if world.is_registered() || world.learned.is_gone {
        return Some(End::Gone);
    }
    if !may_exist && !is_unknown {
        return Some(End::Gone);
    }
    if durable.is_attempt_open() && world.is_clean() {
        return Some(End::Gone);
    }
    if world.on_delete() == OnDelete::Abandon {
        return Some(End::Abandoned);
    }
    if world.cluster.spec.deletion_policy == DeletionPolicy::Orphan {
        return Some(End::Orphaned);
    }
    world.rival.is_some().then_some(End::Rival)
}

/// Decides the next step.
pub(crate) fn step(case: Case<'_>) -> Step {
    let world = case.world;
    let Some(release) = world.without_finalizer() else {
        return Step::Rest;
    };
    if end(world).is_some() {
        return Step::Act(Action::SetMetadata(release));
    }
    if world.resolved().is_none() {
        return Step::Rest;
    }
    match &world.durable.id {
        None => create::search(case),
        Some(id) if world.known.owner == Ownership::ToAdd && !world.is_moved() => {
            case.ask(Ask::AddOwner(id.clone()))
        }
        Some(id) => delete(case, id),
    }
}

/// Asks IM to delete the infrastructure, until it does not exist.
///
/// A state read while IM deletes could bring the record back. So the state is read only some time after an accepted deletion; without an
/// answer, the deletion is sent again instead.
fn delete(case: Case<'_>, id: &InfrastructureId) -> Step {
    let Case { world, now, .. } = case;
    if let Some(since) = world.known.gone_since
        && !world.is_moved()
    {
        return confirm(case, id, since);
    }
    if world.is_unnamed() {
        return existing::read(case, id);
    }
    let is_begun = world
        .durable
        .under_way()
        .is_some_and(|it| it.kind == OperationKind::Delete && it.attempts > 0);
    let force = world.on_delete() == OnDelete::Force;
    let change = Change::Delete { force };
    if !is_begun || (force && !world.known.is_forced) {
        return case.change(change);
    }
    if world.known.is_deleting {
        let Some(reading) = world.fresh(now) else {
            return existing::read(case, id);
        };
        if let Some(step) = going(case, reading) {
            return step;
        }
    }
    match case
        .retry_at()
        .filter(|at| now < *at && !world.known.is_busy)
    {
        Some(at) => Step::Wait(at),
        None => case.change(change),
    }
}

/// Looks whether the account still has an infrastructure of which IM says that it does not exist.
///
/// An IM that builds another infrastructure at that moment can write the record back that it has just removed. So only its list some time
/// later is believed.
fn confirm(case: Case<'_>, id: &InfrastructureId, since: Timestamp) -> Step {
    let settled = later(since, case.settings.settle.min(WRITTEN_BACK));
    match case.now < settled {
        true => Step::Wait(settled),
        false => case.ask(Ask::Left(id.clone())),
    }
}

/// What to do while IM says that it deletes; none if it does not, or not in time.
fn going(case: Case<'_>, reading: &Reading) -> Option<Step> {
    let Case { world, now, .. } = case;
    if reading.state != ImState::Deleting || world.is_overdue(now) {
        return None;
    }
    let again = world
        .known
        .reading
        .as_ref()
        .map(|it| later(it.at, world.poll()));
    Some(Step::Wait(again.unwrap_or(now)))
}

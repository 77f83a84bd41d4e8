//! What to do next about a Cluster without an infrastructure: it is looked up, taken over or created.

use podloom_api::names::infrastructure::reason;
use podloom_engine::plan::later;

use super::{Case, Step};
use crate::cluster::action::{Action, Ask};
use crate::cluster::change::Change;
use crate::cluster::edit::Edit;
use crate::cluster::world::World;
use crate::im::InfrastructureId;
use crate::in_use::Guard;

pub(super) fn step(case: Case<'_>) -> Step {
    let Case { world, now, .. } = case;
    let refusal = world.known.refusal.as_ref();
    let is_rejected = refusal.is_some_and(|it| it.reason == reason::TEMPLATE_REJECTED);
    if is_rejected && !world.durable.is_attempt_open() {
        return Step::Rest;
    }
    if !world.is_clean() {
        return search(case);
    }
    // Without what it needs it gets no finalizer: as long as nothing was ever sent, nothing keeps it.
    let is_prepared = world.has_finalizer() || world.learned.prepared.is_some();
    if let Some(id) = world.to_adopt() {
        return match is_prepared {
            true => case.ask(Ask::Adopt(id)),
            false => case.prepare(),
        };
    }
    if is_rejected || matches!(case.edit, Edit::Invalid(_)) {
        return Step::Rest;
    }
    if world
        .resolved()
        .is_some_and(|backend| backend.going.is_some())
    {
        return Step::Rest;
    }
    if !is_prepared {
        return case.prepare();
    }
    // Whatever there is to wait for comes first, so that nothing is asked of the API server in vain.
    let create = case.change(Change::Create);
    if !matches!(create, Step::Change(_)) {
        return create;
    }
    match world.learned.guard {
        None => Step::Act(Action::Guard),
        Some(Guard::InPlace) => create,
        // Its own event wakes the Cluster; this is for one that is lost.
        Some(Guard::Awaited) => Step::Wait(later(now, world.poll())),
        Some(Guard::Deleted) => Step::Rest,
    }
}

/// Looks for an infrastructure of the Cluster's name: at once, since it may be there. That there is none is believed only when IM has
/// answered for a while, since a request whose answer was lost may have waited for IM to come back.
pub(super) fn search(case: Case<'_>) -> Step {
    let Case {
        world,
        settings,
        now,
        ..
    } = case;
    let heard = world.known.heard_since.filter(|_| world.may_be_late());
    if let Some(heard) = heard {
        let since = world.durable.last_call_at().max(Some(heard));
        let settled = later(since.unwrap_or(heard), settings.settle);
        if now < settled {
            return Step::Wait(settled);
        }
    }
    case.ask(Ask::Search {
        skip: skipped(world),
    })
}

/// What was read already for this very call.
fn skipped(world: &World) -> Vec<InfrastructureId> {
    let search = &world.known.search;
    match search.call == world.durable.last_call_at() {
        true => search.read.iter().cloned().collect(),
        false => Vec::new(),
    }
}

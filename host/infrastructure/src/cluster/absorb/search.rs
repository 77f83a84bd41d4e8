//! What a search for the Cluster's infrastructure means.

use jiff::Timestamp;
use podloom_api::OperationKind;
use podloom_api::names::infrastructure::reason;
use podloom_engine::plan::later;

use super::{LIMITED, state, succeeded, trouble};
use crate::cluster::action::Found;
use crate::cluster::backoff;
use crate::cluster::durable::{Operation, micros};
use crate::cluster::memory::{Search, Trouble};
use crate::cluster::shortage::Shortage;
use crate::cluster::world::World;
use crate::im::InfrastructureId;

/// Notes what a search read. One match is taken over, none means that nothing was created, and of two nobody knows which is right.
///
/// `was_heard` says whether IM answered before it. If it did not, a create request may have waited for it to come back, and be carried
/// out only now: then nothing has been shown yet.
pub(super) fn found(world: &mut World, found: Found, was_heard: bool, at: Timestamp) {
    succeeded(world);
    if world.known.search.call != world.durable.last_call_at() {
        world.known.search = Search::about(world.durable.last_call_at());
    }
    let is_early = !was_heard && world.may_be_late();
    let search = &mut world.known.search;
    search.read.extend(found.read);
    search.matches.extend(found.matches);
    if is_early && search.matches.is_empty() {
        world.known.search = Search::default();
        return;
    }
    if !found.is_complete {
        // IM has other work, and so has this worker.
        world.known.rest = Some(later(at, LIMITED));
        return;
    }
    let mut matches = search.matches.iter().cloned();
    world.known.may_have_twins = search.matches.len() > 1;
    match (matches.next(), search.matches.len()) {
        (None, _) => nothing(world, at),
        (Some(id), 1) => take(world, id, at),
        // All of them have this Cluster's name, so all of them go.
        (Some(id), _) if world.is_deleted() => take(world, id, at),
        (Some(_), count) => several(world, count, at),
    }
}

fn nothing(world: &mut World, at: Timestamp) {
    world.known.search = Search::default();
    match world.is_elsewhere() {
        // The request went to another Infrastructure Manager, and may have made one there.
        true => state::elsewhere(world, at),
        false => {
            world.known.clean = Some(world.durable.last_call_at());
            world.known.gone = None;
            world.known.sent_as = None;
            // Nothing runs anywhere, so it can be created where it is bound to by now.
            world.durable.running_on = None;
            world.durable.provider_url = None;
            // A template that was rejected is as wrong as before.
            let is_duplicate = |it: &mut Trouble| it.reason == reason::DUPLICATE_INFRASTRUCTURES;
            world.known.refusal.take_if(is_duplicate);
        }
    }
}

fn several(world: &mut World, count: usize, at: Timestamp) {
    let message = format!(
        "{count} infrastructures have the name podloom-{}; delete all but one at the Infrastructure Manager",
        world.uid()
    );
    world.known.refusal = Some(trouble(reason::DUPLICATE_INFRASTRUCTURES, message));
    world.known.search = Search::default();
    world.known.rest = Some(later(at, backoff::longest(world.poll())));
}

/// Takes over the infrastructure of the Cluster's name.
fn take(world: &mut World, id: InfrastructureId, at: Timestamp) {
    world.known.search = Search::default();
    let was_recorded = world.durable.is_attempt_open();
    own(world, id);
    if world.durable.operation.is_none() {
        world.durable.operation = Some(Operation::new(OperationKind::Create, micros(at)));
    }
    // What it was made from is known only of a recorded attempt.
    if !was_recorded {
        world.durable.applied = None;
    }
}

/// Takes over the infrastructure that the spec names. The template goes out as an update.
pub(super) fn adopt(world: &mut World, id: InfrastructureId, at: Timestamp) {
    own(world, id);
    world.durable.applied = None;
    world.durable.operation = Some(Operation::new(OperationKind::Update, micros(at)));
}

fn own(world: &mut World, id: InfrastructureId) {
    let url = world
        .resolved()
        .map(|backend| backend.im.written_url.clone());
    let durable = &mut world.durable;
    world.known.named = Some(id.clone());
    durable.id = Some(id);
    durable.provider_url = url;
    if durable.running_on.is_none() {
        durable.running_on.clone_from(&durable.scheduled_to);
    }
    world.known.refusal = None;
    world.known.gone = None;
    world.known.reading = None;
    world.known.clean = None;
    world.known.gone_since = None;
    world.known.shortage = Shortage::None;
    world.known.is_deleting = false;
}

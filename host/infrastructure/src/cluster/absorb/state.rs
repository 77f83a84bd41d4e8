//! What a reading of the state means, and what it means that there is none.

use jiff::Timestamp;
use podloom_api::names::infrastructure::reason;
use podloom_api::{Machines, OperationKind};
use podloom_engine::plan::later;

use super::{succeeded, trouble};
use crate::cluster::action::Found;
use crate::cluster::backoff;
use crate::cluster::durable::{Operation, micros};
use crate::cluster::edit::{Edit, edit};
use crate::cluster::memory::{At, Search, Trouble};
use crate::cluster::shortage::Shortage;
use crate::cluster::world::World;
use crate::im::{ImState, Reading};
use crate::template::is_named;

/// Notes a reading. Configured machines end the operation; others begin one, if none is under way.
pub(super) fn read(world: &mut World, reading: Reading, at: Timestamp) {
    let configured = reading
        .vms
        .values()
        .filter(|it| **it == ImState::Configured);
    let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    world.durable.machines = Some(Machines {
        total: count(reading.vms.len()),
        configured: count(configured.count()),
    });
    world.durable.im_state = Some(reading.state.as_str().to_owned());
    if let Some(url) = world
        .resolved()
        .map(|backend| backend.im.written_url.clone())
    {
        world.durable.provider_url = Some(url);
    }
    world.known.missing_since = None;
    world.known.gone_since = None;
    world.known.gone = None;
    world.known.sent_as = None;
    let (state, total) = (reading.state, reading.vms.len());
    if world.known.is_deleting && !matches!(state, ImState::Deleting | ImState::Unknown) {
        let call = world.durable.last_call_at();
        world.known.undone.count(call);
    }
    world.known.reading = Some(At { what: reading, at });
    if state != ImState::Configured {
        return notice(world, state, at);
    }
    compare(world, total, at);
    match world.known.shortage.is_open() {
        true => notice(world, state, at),
        false => finish(world, at),
    }
}

/// Notes whether machines are missing. While an update is ahead, nobody knows what IM has the template for.
fn compare(world: &mut World, total: usize, at: Timestamp) {
    let wanted = match edit(world) {
        Edit::Send(_) => 0,
        _ => world.machines_wanted(),
    };
    let poll = world.poll();
    world.known.shortage = world.known.shortage.after((total, wanted), at, poll);
}

/// Ends the operation that is under way, unless it is an update that IM may not have.
fn finish(world: &mut World, at: Timestamp) {
    world.known.log = None;
    let is_ahead = matches!(edit(world), Edit::Send(_));
    if !is_ahead {
        // Whatever was refused, it is not needed any more.
        world.known.refusal = None;
    }
    let Some(operation) = &mut world.durable.operation else {
        return;
    };
    let waits = is_ahead && operation.kind == OperationKind::Update;
    if operation.finished_at.is_none() && !waits && operation.kind != OperationKind::Delete {
        operation.finished_at = Some(micros(at));
        operation.attempts = 0;
    }
}

/// Begins an operation, without any request yet: its deadline counts from now.
fn notice(world: &mut World, state: ImState, at: Timestamp) {
    let is_moving = matches!(state, ImState::Pending | ImState::Running);
    if world.durable.under_way().is_some() || !(world.is_repaired() || is_moving) {
        return;
    }
    let kind = match state {
        ImState::Configured if world.known.shortage != Shortage::Found => return,
        ImState::Stopped | ImState::Off => OperationKind::Start,
        ImState::Configured | ImState::Failed | ImState::Pending => OperationKind::Update,
        _ => OperationKind::Reconfigure,
    };
    world.durable.operation = Some(Operation::new(kind, micros(at)));
}

/// There is no such infrastructure, as IM says. Only the same answer one interval later is believed.
pub(super) fn missing(world: &mut World, at: Timestamp) {
    world.known.reading = None;
    world.known.trouble = None;
    world.known.failures = 0;
    if world.is_deleted() {
        return deleted(world, at);
    }
    let Some(since) = world.known.missing_since else {
        world.known.missing_since = Some(at);
        return;
    };
    if at < later(since, world.poll()) {
        return;
    }
    if world.is_elsewhere() {
        return elsewhere(world, at);
    }
    if world.is_repaired() {
        return forget(world, at);
    }
    let message = "the Infrastructure Manager does not know the infrastructure any more";
    world.known.gone = Some(trouble(reason::VANISHED, message));
    // Somebody may bring it back.
    world.known.missing_since = Some(at);
}

/// The infrastructure was to be deleted, and does not exist, as IM says. Only its list some time later is believed.
pub(super) fn deleted(world: &mut World, at: Timestamp) {
    if world.is_elsewhere() {
        return elsewhere(world, at);
    }
    succeeded(world);
    world.known.refusal = None;
    world.known.is_busy = false;
    world.known.gone_since.get_or_insert(at);
}

/// Notes whether the account still has the infrastructure that was deleted.
pub(super) fn left(world: &mut World, found: &Found) {
    succeeded(world);
    world.known.gone_since = None;
    if !found.matches.is_empty() {
        // It is deleted once more.
        world.known.is_deleting = false;
        world.known.reading = None;
        return;
    }
    match world.known.may_have_twins || world.is_unnamed() {
        // A search finds the next one, or the Cluster's own if the id was another's, or that there is none.
        true => {
            world.durable.id = None;
            world.known.search = Search::about(world.durable.last_call_at());
        }
        false => world.learned.is_gone = true,
    }
}

/// Notes whether what has the Cluster's id is its infrastructure.
pub(super) fn named(world: &mut World, template: &str, at: Timestamp) {
    world.known.missing_since = None;
    match is_named(template, &world.infrastructure_name()) {
        Some(true) => {
            world.known.gone = None;
            if world.known.named != world.durable.id {
                world.known.reading = None;
                world.known.named.clone_from(&world.durable.id);
            }
            let backend = world.resolved();
            world.durable.provider_url = backend.map(|backend| backend.im.written_url.clone());
        }
        _ if world.is_moved() => elsewhere(world, at),
        _ => {
            let message = "the infrastructure with the id in status.clusterId does not have the Cluster's name, so it is left alone; \
                           remove status.clusterId, and the Cluster's own is looked up, or abandon the infrastructure";
            lost(world, trouble(reason::ADOPTION_FAILED, message), at);
        }
    }
}

/// IM has no template, so the name cannot be read. At the same URL the id is trusted; at another one it is not.
pub(super) fn nameless(world: &mut World, at: Timestamp) {
    match world.is_moved() {
        true => elsewhere(world, at),
        false => {
            succeeded(world);
            world.known.named.clone_from(&world.durable.id);
        }
    }
}

pub(super) fn elsewhere(world: &mut World, at: Timestamp) {
    let message = "the provider has another URL now, and the Infrastructure Manager there does not have the Cluster's infrastructure; \
                   give the provider its old URL back, or abandon the infrastructure";
    lost(world, trouble(reason::ENDPOINT_CHANGED, message), at);
}

fn lost(world: &mut World, why: Trouble, at: Timestamp) {
    // It may be of another id.
    world.known.reading = None;
    world.known.gone = Some(why);
    world.known.missing_since = Some(at);
    world.known.rest = Some(later(at, backoff::longest(world.poll())));
}

/// Forgets an infrastructure that is gone. What comes next is the create flow, which looks it up once more.
fn forget(world: &mut World, at: Timestamp) {
    let durable = &mut world.durable;
    durable.id = None;
    durable.running_on = None;
    durable.provider_url = None;
    durable.applied = None;
    durable.retired.clear();
    durable.im_state = None;
    durable.machines = None;
    durable.operation = Some(Operation::new(OperationKind::Create, micros(at)));
    let known = &mut world.known;
    known.missing_since = None;
    known.clean = None;
    known.kept = None;
    known.log = None;
    known.unsure = None;
    known.refusal = None;
    known.shortage = Shortage::None;
    known.has_no_template = false;
}

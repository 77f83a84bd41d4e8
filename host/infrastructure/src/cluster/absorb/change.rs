//! What the answer to a request that changes something means.

use std::time::Duration;

use jiff::Timestamp;
use podloom_engine::plan::later;

use super::{QUIET, succeeded};
use crate::cluster::action::Ask;
use crate::cluster::change::Change;
use crate::cluster::edit::{Edit, edit};
use crate::cluster::shortage::Shortage;
use crate::cluster::world::World;

/// After a deletion, the state is not read for this long: IM would bring the record back.
const DELETED: Duration = Duration::from_millis(1500);

/// IM accepted it.
pub(super) fn accepted(world: &mut World, change: Change, at: Timestamp) {
    match change {
        Change::Update => updated(world),
        Change::Delete { force } => {
            world.known.is_deleting = true;
            world.known.is_forced = force;
        }
        Change::Create | Change::Resend | Change::Reconfigure | Change::Start => {}
    }
    succeeded(world);
    world.known.refusal = None;
    world.known.is_busy = false;
    world.known.has_no_template = false;
    if matches!(change, Change::Create | Change::Update) {
        world.known.tried = world.metadata().generation;
        world.known.shortage = Shortage::None;
    }
    if change == Change::Resend && world.known.shortage == Shortage::Found {
        world.known.shortage = Shortage::Sent;
    }
    look_again(world, change, at);
}

/// After a change, whatever was read before means nothing.
pub(super) fn look_again(world: &mut World, change: Change, at: Timestamp) {
    let quiet = match change {
        Change::Delete { .. } => DELETED,
        _ => world.poll().min(QUIET),
    };
    world.known.reading = None;
    world.known.missing_since = None;
    world.known.gone_since = None;
    world.known.quiet = Some(later(at, quiet));
}

/// IM has the template now.
fn updated(world: &mut World) {
    if let Edit::Send(update) = edit(world) {
        world.durable.retired.extend(update.retired);
    }
    let wanted = world.wanted.as_ref().map(|it| it.template.clone());
    if wanted.is_some() {
        world.durable.applied = wanted;
    }
    world.known.unsure = None;
    // The outputs may be others now.
    world.known.kept = None;
}

/// A change certainly was not carried out, and nobody tried: it does not count.
pub(super) fn not_sent(world: &mut World, ask: &Ask) {
    let Ask::Change(change) = ask else {
        return;
    };
    if let Some(operation) = &mut world.durable.operation {
        operation.attempts = operation.attempts.saturating_sub(1);
    }
    if *change == Change::Create {
        cleared(world);
    }
}

/// A create request certainly made nothing: the record of the attempt is cleared. How often it was tried is kept.
pub(super) fn cleared(world: &mut World) {
    let durable = &mut world.durable;
    durable.running_on = None;
    durable.provider_url = None;
    durable.applied = None;
    if let Some(operation) = &mut durable.operation {
        operation.last_call_at = None;
    }
    world.known.clean = Some(None);
}

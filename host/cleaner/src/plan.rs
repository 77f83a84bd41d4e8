//! The next step for a Cleaner. Pure: the same world and time give the same plan.
//!
//! Until the status says what is deleted, nothing is. It is written once, with the resourceVersion of the Cleaner whose conditions were
//! true, and only when the finalizer is there. From then on, only what is written is deleted.

mod deleting;
mod report;
mod waiting;

pub(super) use self::waiting::JITTER_MAX;

use jiff::Timestamp;
use podloom_api::names::cleaner::FINALIZER;
use podloom_engine::plan::{Plan, Then};
use podloom_engine::write::MetadataPatch;

use crate::status;
use crate::world::{Action, World};

/// Plans the next step.
pub(super) fn plan(world: &World, now: Timestamp) -> Plan<Action> {
    match (world.is_deleted(), world.has_finalizer(), world.deletion()) {
        // Somebody has deleted it while it waited: its targets stay.
        (true, false, _) => resting(world, Then::Change),
        (true, true, None) => released(world),
        (true, true, Some(_)) if world.is_abandoned() => released(world),
        (true, true, Some(deletion)) => match world.is_watching {
            true => Plan::act(Action::Unwatch),
            false => deleting::plan(world, deletion, now),
        },
        // The finalizer is written before the status that says what is deleted, and nothing is deleted without it. So somebody has
        // removed it since, or has written the status: it is decided anew.
        (false, false, Some(_)) => forgotten(world),
        (false, true, Some(_)) => Plan::act(Action::DeleteCleaner),
        (false, _, None) => waiting::plan(world, now),
    }
}

/// Waits, and watches nothing meanwhile.
fn resting(world: &World, then: Then) -> Plan<Action> {
    match world.is_watching {
        true => Plan::act(Action::Unwatch),
        false => Plan::wait(then),
    }
}

/// Takes a plan out of the status, of which nothing was deleted.
fn forgotten(world: &World) -> Plan<Action> {
    let status = status::forgotten(world);
    Plan::act(Action::WriteStatus(Box::new(status))).with_notices([report::forgotten()])
}

/// Sets our finalizer.
fn marked(world: &World) -> Plan<Action> {
    let present = world.cleaner.metadata.finalizers.iter().flatten();
    let finalizers = present.cloned().chain([FINALIZER.to_owned()]).collect();
    Plan::act(Action::SetMetadata(MetadataPatch {
        finalizers: Some(finalizers),
        ..MetadataPatch::default()
    }))
}

/// Removes our finalizer.
fn released(world: &World) -> Plan<Action> {
    match MetadataPatch::without(&world.cleaner.metadata, FINALIZER) {
        Some(patch) => Plan::act(Action::SetMetadata(patch)),
        None => resting(world, Then::Change),
    }
}

#[cfg(test)]
mod tests;

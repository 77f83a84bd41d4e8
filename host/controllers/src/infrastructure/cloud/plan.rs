//! The next step for a Cloud. Pure.

use jiff::Timestamp;

use super::status;
use super::world::{Action, World};
use crate::engine::plan::{Plan, Then};
use crate::infrastructure::in_use::{self, Release, Step, is_held};

/// Plans the next step for a Cloud: the finalizer first, since Clusters wait for it.
pub(super) fn plan(world: &World, now: Timestamp) -> Plan<Action> {
    let metadata = &world.cloud.metadata;
    if world.refused.is_none() {
        match in_use::step(
            metadata,
            &world.users,
            world.users_from,
            Release::InTwoSteps,
        ) {
            Step::Rest => {}
            Step::Confirm => return Plan::act(Action::Confirm),
            Step::Write(patch) => return Plan::act(Action::SetMetadata(patch)),
        }
    }
    if metadata.deletion_timestamp.is_some() && !is_held(metadata) {
        return Plan::wait(Then::Change);
    }
    let probe = world.probe.as_ref();
    let is_due = probe.is_none_or(|probe| probe.is_due(&world.basis, now));
    if is_due && world.backend.is_ok() {
        return Plan::act(Action::Probe);
    }
    let (wanted, notices) = status::status(world, now);
    let is_used = world.users.clusters > 0;
    let seen = world.cloud.status.as_ref();
    if world.said.is_due(seen, &wanted, is_used) {
        return Plan::act(Action::WriteStatus(Box::new(wanted))).with_notices(notices);
    }
    match (&world.refused, probe) {
        (Some(message), _) => Plan::wait(in_use::retry(message)),
        (None, Some(probe)) if world.backend.is_ok() => Plan::wait(Then::At(probe.due)),
        _ => Plan::wait(Then::Change),
    }
}

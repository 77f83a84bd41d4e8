//! How a pass over a Cleaner that deletes nothing yet ends: what it waits for is published, then it waits.

use jiff::Timestamp;
use podloom_engine::plan::{Plan, Then};

use super::{released, report, resting};
use crate::action::Action;
use crate::checked::Checked;
use crate::memory::Looked;
use crate::schedule::Rhythm;
use crate::sight::{Problem, Sight};
use crate::standing::Standing;
use crate::status;
use crate::world::World;

/// The next look by the period.
pub(super) fn period(world: &World, checked: &Checked, sight: &Sight) -> Timestamp {
    let planned = match &world.recalled.looked {
        Some(last) if last.edition == world.edition() => Some(last.due),
        Some(_) => None,
        // After a restart, the time that was published is kept.
        None => world
            .status()
            .and_then(|status| status.next_scheduled_evaluation.as_deref())
            .and_then(|next| next.parse().ok()),
    };
    let rhythm = Rhythm {
        period: checked.period,
        jitter: world.jitter,
        planned,
    };
    rhythm.next(sight.at)
}

/// The next step if targets cannot be read, or not all that is to be deleted.
pub(super) fn unresolved(
    world: &World,
    checked: &Checked,
    problem: &Problem,
    now: Timestamp,
) -> Plan<Action> {
    let standing = Standing::Unresolved(problem);
    let sight = world.learned.sight.as_deref();
    match sight.filter(|_| !problem.is_transient) {
        Some(sight) => rest(
            world,
            &standing,
            Next::Look(period(world, checked, sight)),
            now,
        ),
        None => rest(world, &standing, Next::Retry(problem), now),
    }
}

/// When to look again.
#[derive(Clone, Copy)]
pub(super) enum Next<'a> {
    /// When the spec changes.
    Change,
    /// At this time, without having looked at the targets.
    At(Timestamp),
    /// At this time, after a look at the targets.
    Look(Timestamp),
    /// With backoff.
    Retry(&'a Problem),
}

/// Publishes what the Cleaner waits for, then waits. A finalizer that a crash has left is removed: it would make a later deletion by a
/// user wait for us.
pub(super) fn rest(
    world: &World,
    standing: &Standing<'_>,
    next: Next<'_>,
    now: Timestamp,
) -> Plan<Action> {
    if world.has_finalizer() {
        return released(world);
    }
    let published = match next {
        Next::At(at) | Next::Look(at) => Some(at),
        Next::Change | Next::Retry(_) => None,
    };
    let wanted = status::waiting(world, standing, published, now);
    if world.status() != Some(&wanted) {
        let notices = report::refused(world, standing);
        return Plan::act(Action::WriteStatus(Box::new(wanted))).with_notices(notices);
    }
    match (next, &world.learned.sight) {
        (Next::Change, _) => resting(world, Then::Change),
        (Next::At(at), _) => resting(world, Then::At(at)),
        (Next::Look(due), Some(sight)) => Plan::act(Action::Remember(Looked {
            at: sight.at,
            edition: world.edition(),
            events: sight.events,
            due,
        })),
        (Next::Look(due), None) => Plan::wait(Then::At(due)),
        (Next::Retry(problem), _) => Plan::wait(Then::Retry {
            reason: "ReadTarget",
            message: problem.to_string(),
            until: Timestamp::MAX,
        }),
    }
}

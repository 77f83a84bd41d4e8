//! The next step for a Cleaner that deletes nothing yet.

use std::time::Duration;

use jiff::Timestamp;
use podloom_cel::{Reason, Verdict};

use super::{released, resting, trigger};
use crate::cleaner::action::{Action, Programs};
use crate::cleaner::checked::Checked;
use crate::cleaner::memory::{Compiled, Looked};
use crate::cleaner::schedule::Rhythm;
use crate::cleaner::sight::{Problem, Sight};
use crate::cleaner::standing::Standing;
use crate::cleaner::status;
use crate::cleaner::world::World;
use crate::engine::plan::{Plan, Then, later};

/// The shortest time between two looks. It is no debounce: targets that change all the time do not put a look off.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

pub(super) fn plan(world: &World, now: Timestamp) -> Plan<Action> {
    if let Err(error) = &world.cleaner.spec.0 {
        return rest(world, &Standing::Malformed(error), Next::Change, now);
    }
    let checked = match &world.checked {
        Ok(checked) => checked,
        Err(invalid) => return rest(world, &Standing::Invalid(invalid), Next::Change, now),
    };
    let expiry = expiry(world, checked);
    match &world.recalled.compiled {
        None => {
            return Plan::act(Action::Compile(match now < expiry {
                true => Programs::Dropped,
                false => Programs::Kept,
            }));
        }
        Some(Compiled::Failed(failures)) => {
            return rest(world, &Standing::Uncompiled(failures), Next::Change, now);
        }
        Some(Compiled::Fine) => {}
    }
    if now < expiry {
        return rest(world, &Standing::NotExpired(expiry), Next::At(expiry), now);
    }
    match &world.learned.sight {
        Some(sight) => looked(world, checked, sight, now),
        None => match due(world, now) {
            Due::Now => Plan::act(Action::Look(now)),
            Due::At(at) => Plan::wait(Then::At(at)),
        },
    }
}

/// When a Cleaner is old enough.
fn expiry(world: &World, checked: &Checked) -> Timestamp {
    let created = world.cleaner.metadata.creation_timestamp.as_ref();
    let created = created.map_or(Timestamp::UNIX_EPOCH, |created| created.0);
    later(created, checked.ttl)
}

/// Whether the targets are to be looked at.
enum Due {
    Now,
    At(Timestamp),
}

fn due(world: &World, now: Timestamp) -> Due {
    let Some(last) = &world.recalled.looked else {
        return Due::Now;
    };
    let is_changed = last.edition != world.edition() || last.events != world.recalled.events;
    let next = later(last.at, LOOK_INTERVAL);
    match is_changed || last.due <= now {
        false => Due::At(last.due),
        // A clock that was put back must not put off the look.
        true if last.at <= now && now < next => Due::At(next),
        true => Due::Now,
    }
}

/// The next step once the targets were looked at.
fn looked(world: &World, checked: &Checked, sight: &Sight, now: Timestamp) -> Plan<Action> {
    let problem = sight.problem.as_ref().or(world.learned.problem.as_ref());
    if let Some(problem) = problem {
        return unresolved(world, checked, problem, now);
    }
    let Some(evaluation) = &world.learned.evaluation else {
        return Plan::act(Action::Evaluate(sight.at));
    };
    let standing = match evaluation.verdict() {
        Verdict::Met => return trigger::plan(world, checked, sight, now),
        Verdict::NotMet { index } => Standing::Unmet(index),
        Verdict::Failed(failure) => Standing::Failed(failure),
    };
    let is_spent = matches!(standing, Standing::Failed(it) if it.reason == Reason::BudgetExceeded);
    let next = match (checked.is_monotonic && !is_spent, world.learned.search) {
        (true, None) => return Plan::act(Action::Search(sight.at)),
        (true, Some(Some(found))) if sight.unwatched.is_empty() => found,
        (true, Some(Some(found))) => found.min(period(world, checked, sight)),
        _ => period(world, checked, sight),
    };
    rest(world, &standing, Next::Look(next), now)
}

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
        let notices = super::report::refused(world, standing);
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

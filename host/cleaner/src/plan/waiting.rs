//! The next step for a Cleaner that deletes nothing yet.

use std::time::Duration;

use jiff::Timestamp;
use podloom_cel::{Reason, Verdict};
use podloom_engine::plan::{Plan, Then, later};

use super::rest::{Next, period, rest, unresolved};
use super::trigger;
use crate::action::{Action, Programs};
use crate::checked::Checked;
use crate::memory::Compiled;
use crate::sight::Sight;
use crate::standing::Standing;
use crate::world::World;

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
    // The API server sets it. Without it, nobody knows the age.
    created.map_or(Timestamp::MAX, |created| later(created.0, checked.ttl))
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
    // A clock that was put back must not put off the look.
    let is_put_back = now < last.at;
    match is_changed || last.due <= now || is_put_back {
        false => Due::At(last.due),
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

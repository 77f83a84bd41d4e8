//! The instant at which conditions become true, if time alone makes them so.

use std::sync::Arc;

use jiff::Timestamp;

use crate::environment::environment;
use crate::evaluate::{Budget, Limits, evaluate_in};
use crate::outcome::{Outcome, Reason, Verdict};
use crate::program::Program;
use crate::stack;
use crate::variables::Variables;

/// The farthest look ahead is 2^29 seconds, 17 years.
const FARTHEST: u32 = 29;

/// Finds the first whole second after `now` at which `holds` is true, if it stays true from then on.
///
/// It looks 1, 2, 4 ... 2^29 seconds ahead until it is true there, and then halves the span between the last look that was false
/// and the first that was true: at most 59 looks. All times are seconds since 1970. `None` if it was false at each look.
///
/// If `holds` becomes false again at some time, the result is a second at which it is true and just before which it was false,
/// but maybe not the first one.
///
/// # Errors
/// The first error of `holds`.
pub fn first_true<E>(
    now: i64,
    mut holds: impl FnMut(i64) -> Result<bool, E>,
) -> Result<Option<i64>, E> {
    let mut before = now;
    for power in 0..=FARTHEST {
        let ahead = now.saturating_add(1 << power);
        if holds(ahead)? {
            return bisect(before, ahead, holds).map(Some);
        }
        before = ahead;
    }
    Ok(None)
}

/// The first second that is true, after one that is false and up to one that is true.
fn bisect<E>(
    mut before: i64,
    mut at: i64,
    mut holds: impl FnMut(i64) -> Result<bool, E>,
) -> Result<i64, E> {
    while at - before > 1 {
        let middle = before + (at - before) / 2;
        if holds(middle)? {
            at = middle;
        } else {
            before = middle;
        }
    }
    Ok(at)
}

/// Finds the first whole second after `now` at which all conditions are true, while the objects stay as they are. A condition
/// that fails counts as false.
///
/// Like [`crate::evaluate_all`], it runs on a thread of its own and waits for it. `None` if there is no such second within 17
/// years, if the budget is spent, or if one evaluation takes more steps than [`Budget::EVALUATION`] has: then it would fail at
/// that second too.
pub fn next_true(
    programs: &[Program],
    variables: &Variables,
    now: Timestamp,
    budget: Budget,
) -> Option<Timestamp> {
    stack::wait_for(|| next_true_here(programs, variables, now, budget)).ok()?
}

/// The search ended without an answer.
struct Spent;

/// Searches on this thread.
pub(crate) fn next_true_here(
    programs: &[Program],
    variables: &Variables,
    now: Timestamp,
    budget: Budget,
) -> Option<Timestamp> {
    let env = Arc::new(environment().ok()?);
    let mut left = Limits::from_now(budget);
    let found = first_true(whole_second(now), |second| {
        let Ok(time) = Timestamp::from_second(second) else {
            return Err(Spent);
        };
        let limits = Limits {
            steps: left.steps.min(Budget::EVALUATION.steps),
            ..left
        };
        let evaluation = evaluate_in(&env, programs, (variables, time), limits);
        left.steps = left.steps.saturating_sub(evaluation.steps);
        let is_spent = |outcome: &Outcome| matches!(outcome, Outcome::Error(failure) if failure.reason == Reason::BudgetExceeded);
        if evaluation.outcomes.iter().any(is_spent) {
            return Err(Spent);
        }
        Ok(evaluation.verdict() == Verdict::Met)
    });
    found
        .ok()?
        .and_then(|second| Timestamp::from_second(second).ok())
}

/// The second in which an instant lies, so the next one is after it.
fn whole_second(time: Timestamp) -> i64 {
    let second = time.as_second();
    if time.subsec_nanosecond() < 0 {
        second - 1
    } else {
        second
    }
}

#[cfg(test)]
mod tests;

//! Evaluating conditions within a budget: at an instant, and in search of the one at which time alone makes them true.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cel::common::types::CelBool;
use cel::{Context, Env};
use jiff::Timestamp;

use crate::check::Walked;
use crate::environment::environment;
use crate::message::describe;
use crate::meter::{Stop, Usage};
use crate::outcome::{Evaluation, Failure, Outcome, Reason, Verdict, at};
use crate::program::Program;
use crate::variables::{Scene, Variables, seconds};
use crate::{meter, stack};

/// How much an evaluation may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Steps of all conditions together. A step is an element of a list or a map that is visited or made, a round of a macro, or
    /// 64 bytes of text.
    pub steps: u64,
    /// How long it may take from its start, waiting for a thread not included.
    pub time: Duration,
}

impl Budget {
    /// Of one evaluation: 1,000,000 steps, 2 seconds.
    pub const EVALUATION: Self = Self {
        steps: 1_000_000,
        time: Duration::from_secs(2),
    };
    /// Of one search for the instant at which conditions become true: 10,000,000 steps, 5 seconds.
    pub const SEARCH: Self = Self {
        steps: 10_000_000,
        time: Duration::from_secs(5),
    };

    /// When its time is over, if it begins now; `None` if that is farther away than the clock can count.
    fn deadline(self) -> Option<Instant> {
        Instant::now().checked_add(self.time)
    }
}

/// Evaluates all conditions at an instant. It runs on a thread of its own with a large stack, and waits for it, so it must not be
/// called where others wait for the caller; [`crate::Evaluator`] is for them.
///
/// Each condition is evaluated, whatever came out of those before it, until the budget is spent: then this condition and all
/// after it are [`Reason::BudgetExceeded`].
pub fn evaluate_all(
    programs: &[Program],
    variables: &Variables,
    time: Timestamp,
    budget: Budget,
) -> Evaluation {
    let evaluation = stack::wait_for(|| evaluate_here(programs, variables, time, budget));
    evaluation.unwrap_or_else(|broken| all_failed(programs.len(), &broken.to_string()))
}

/// Runs work that evaluates conditions many times, at the beginning of 1970: on one thread, as [`evaluate_all`] does, and within one
/// budget for all.
///
/// # Errors
/// If there is no thread, or the work panics.
pub fn evaluate_many<T: Send>(
    budget: Budget,
    work: impl FnOnce(&mut dyn FnMut(&[Program], &Variables) -> Evaluation) -> T + Send,
) -> Result<T, String> {
    let done = stack::wait_for(move || {
        let env = environment().map(Arc::new);
        let (mut left, deadline) = (budget.steps, budget.deadline());
        work(&mut |programs, variables| match &env {
            Ok(env) => {
                let scene = (variables, Timestamp::UNIX_EPOCH);
                let evaluation = evaluate_in(env, programs, scene, (left, deadline));
                left = left.saturating_sub(evaluation.steps);
                evaluation
            }
            Err(error) => all_failed(programs.len(), &error.to_string()),
        })
    });
    done.map_err(|broken| broken.to_string())
}

/// The evaluation if nothing could be evaluated.
pub(crate) fn all_failed(count: usize, message: &str) -> Evaluation {
    let failure = |index| Outcome::Error(Failure::new(index, Reason::EvaluationError, message));
    Evaluation {
        outcomes: (0..count).map(failure).collect(),
        ..Evaluation::default()
    }
}

/// Evaluates all conditions on this thread.
pub(crate) fn evaluate_here(
    programs: &[Program],
    variables: &Variables,
    time: Timestamp,
    budget: Budget,
) -> Evaluation {
    match environment() {
        Ok(env) => {
            let limits = (budget.steps, budget.deadline());
            evaluate_in(&Arc::new(env), programs, (variables, time), limits)
        }
        Err(error) => all_failed(programs.len(), &error.to_string()),
    }
}

/// Evaluates all conditions on this thread, in an environment that is there already.
fn evaluate_in(
    env: &Arc<Env>,
    programs: &[Program],
    (variables, time): (&Variables, Timestamp),
    (left, deadline): (u64, Option<Instant>),
) -> Evaluation {
    let Some(scene) = Scene::new(variables, time) else {
        return all_failed(programs.len(), "the time is after the year 9999");
    };
    let mut evaluation = Evaluation::default();
    let mut stopped = None;
    for (index, program) in programs.iter().enumerate() {
        let failed = |reason, message: &str| Outcome::Error(Failure::new(index, reason, message));
        if let Some(stop) = stopped {
            let outcome = failed(Reason::BudgetExceeded, too_much(stop));
            evaluation.outcomes.push(outcome);
            continue;
        }
        let steps = left.saturating_sub(evaluation.steps);
        let (result, Usage { steps, stop }) = meter::run(steps, deadline, || {
            stack::caught(|| evaluate(env, program, &scene))
        });
        evaluation.steps += steps;
        stopped = stop;
        evaluation.outcomes.push(match (stop, result) {
            // A macro may have absorbed the error that the spent budget was.
            (Some(stop), _) => failed(Reason::BudgetExceeded, too_much(stop)),
            (None, Ok(Ok(true))) => {
                let remark = true_of_nothing(program, variables);
                let remark = remark.map(|message| (index, at(index, &message)));
                evaluation.remarks.extend(remark);
                Outcome::True
            }
            (None, Ok(Ok(false))) => Outcome::False,
            (None, Ok(Err((reason, message)))) => failed(reason, &message),
            (None, Err(broken)) => failed(Reason::EvaluationError, &broken.to_string()),
        });
    }
    evaluation
}

/// What is to know of a condition that is true although a list that it goes through is empty.
fn true_of_nothing(program: &Program, variables: &Variables) -> Option<String> {
    let mut walked = program.walked().iter();
    let Walked { path, asked } = walked.find(|it| variables.is_empty_list(&it.path))?;
    Some(format!(
        "{path} is empty, and {asked} is true of an empty list; to wait for one object, write size({path}) > 0 && {asked}"
    ))
}

const fn too_much(stop: Stop) -> &'static str {
    match stop {
        Stop::Steps => {
            "the conditions take too many steps; look at fewer objects, or at each less often"
        }
        Stop::Time => "the conditions take too long; look at fewer objects, or at each less often",
    }
}

fn evaluate(
    env: &Arc<Env>,
    program: &Program,
    scene: &Scene<'_>,
) -> Result<bool, (Reason, String)> {
    let mut context = Context::with_env(Arc::clone(env));
    context.set_variable_resolver(scene);
    let value = cel::Value::resolve_val(program.expression(), &context)
        .map_err(|error| (Reason::EvaluationError, describe(&error)))?;
    let result = value.downcast_ref::<CelBool>().map(|value| *value.inner());
    result.ok_or_else(|| {
        let message = format!("the result is {}, not bool", value.get_type().name());
        (Reason::ResultNotBoolean, message)
    })
}

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

/// Searches on this thread.
pub(crate) fn next_true_here(
    programs: &[Program],
    variables: &Variables,
    now: Timestamp,
    budget: Budget,
) -> Option<Timestamp> {
    let env = Arc::new(environment().ok()?);
    let (mut left, deadline) = (budget.steps, budget.deadline());
    let found = first_true(seconds(now).0, |second| {
        // An error ends the search without an answer.
        let time = Timestamp::from_second(second).map_err(drop)?;
        let limits = (left.min(Budget::EVALUATION.steps), deadline);
        let evaluation = evaluate_in(&env, programs, (variables, time), limits);
        left = left.saturating_sub(evaluation.steps);
        let is_spent = |outcome: &Outcome| matches!(outcome, Outcome::Error(failure) if failure.reason == Reason::BudgetExceeded);
        if evaluation.outcomes.iter().any(is_spent) {
            return Err(());
        }
        Ok(evaluation.verdict() == Verdict::Met)
    });
    Timestamp::from_second(found.ok()??).ok()
}

#[cfg(test)]
mod tests;

//! The next step for a Cleaner that deletes nothing yet.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use podloom_api::{
    DeletionPhase, DeletionProgress, DeliveryProgress, HelmProgress, HelmStep, PlannedObject,
};
use podloom_cel::{Reason, Verdict};
use podloom_engine::plan::{Plan, Then, later};

use crate::checked::Checked;
use crate::memory::Looked;
use crate::plan::{marked, released, report, resting};
use crate::read::{Problem, Sight};
use crate::status::Standing;
use crate::world::{Action, Programs, World};
use crate::{frozen, status};

/// The shortest time between two looks. It is no debounce: targets that change all the time do not put a look off.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

pub(super) fn plan(world: &World, now: Timestamp) -> Plan<Action> {
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
        Some(Err(failures)) => {
            return rest(world, &Standing::Uncompiled(failures), Next::Change, now);
        }
        Some(Ok(())) => {}
    }
    if now < expiry {
        return rest(world, &Standing::NotExpired(expiry), Next::At(expiry), now);
    }
    match &world.learned.sight {
        Some(sight) => looked(world, checked, sight, now),
        None => match not_before(world, now) {
            None => Plan::act(Action::Look(now)),
            Some(at) => Plan::wait(Then::At(at)),
        },
    }
}

/// When a Cleaner is old enough.
fn expiry(world: &World, checked: &Checked) -> Timestamp {
    let created = world.cleaner.metadata.creation_timestamp.as_ref();
    // The API server sets it. Without it, nobody knows the age.
    created.map_or(Timestamp::MAX, |created| later(created.0, checked.ttl))
}

/// Until when the targets are not looked at; none if they are now.
fn not_before(world: &World, now: Timestamp) -> Option<Timestamp> {
    let last = world.recalled.looked.as_ref()?;
    let is_changed = last.edition != world.edition() || last.events != world.recalled.events;
    let next = later(last.at, LOOK_INTERVAL);
    // A clock that was put back must not put off the look.
    let is_put_back = now < last.at;
    match is_changed || last.due <= now || is_put_back {
        false => Some(last.due),
        true if last.at <= now && now < next => Some(next),
        true => None,
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
        Verdict::Met => return triggered(world, checked, sight, now),
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
fn period(world: &World, checked: &Checked, sight: &Sight) -> Timestamp {
    let planned = match &world.recalled.looked {
        Some(last) if last.edition == world.edition() => Some(last.due),
        Some(_) => None,
        // After a restart, the time that was published is kept.
        None => world
            .status()
            .and_then(|status| status.next_scheduled_evaluation.as_deref())
            .and_then(|next| next.parse().ok()),
    };
    next_look(sight.at, checked.period, world.jitter, planned)
}

/// The next step if targets cannot be read, or not all that is to be deleted.
fn unresolved(world: &World, checked: &Checked, problem: &Problem, now: Timestamp) -> Plan<Action> {
    let standing = Standing::Unresolved(problem);
    let sight = world.learned.sight.as_deref();
    match sight.filter(|_| !problem.is_transient) {
        Some(sight) => {
            let next = Next::Look(period(world, checked, sight));
            rest(world, &standing, next, now)
        }
        None => rest(world, &standing, Next::Retry(problem), now),
    }
}

/// When to look again.
#[derive(Clone, Copy)]
enum Next<'a> {
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
fn rest(world: &World, standing: &Standing<'_>, next: Next<'_>, now: Timestamp) -> Plan<Action> {
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

/// The next step for a Cleaner whose conditions are all true: what it would delete is read whole, and guards may forbid it.
fn triggered(world: &World, checked: &Checked, sight: &Sight, now: Timestamp) -> Plan<Action> {
    let Some(read) = &world.learned.doomed else {
        return Plan::act(Action::Doom);
    };
    let targets = status::in_order(world, &sight.targets, read);
    let doomed = match frozen::plan(targets, world.uid()) {
        Ok(doomed) => doomed,
        Err(problem) => return unresolved(world, checked, &problem, now),
    };
    let next = Next::Look(period(world, checked, sight));
    let excluded = &world.settings.excluded_namespaces;
    if let Some(refusal) = frozen::refusal(&doomed, checked.max_objects, excluded) {
        return rest(world, &Standing::Refused(&refusal), next, now);
    }
    let objects: Vec<PlannedObject> = doomed.into_iter().map(|it| it.planned).collect();
    let notice = report::triggered(world, &objects, checked);
    let dry_run = checked.is_dry_run.then(|| dry_run(&objects, checked));
    let progress = DeletionProgress {
        phase: DeletionPhase::Targets,
        phase_started_at: MicroTime(status::micros(now)),
        objects,
        helm: checked.helm.as_deref().map(uninstallation),
        event: checked.sink.as_ref().map(|_| DeliveryProgress::default()),
    };
    let status = status::committed(world, sight, progress, now);
    // Before the finalizer is set: with one, a deletion by a user would wait for us.
    if let Some(refusal) = frozen::too_large(world, &status) {
        return rest(world, &Standing::Refused(&refusal), next, now);
    }
    if let Some(message) = dry_run {
        return rest(world, &Standing::DryRun(&message), next, now);
    }
    if !world.has_finalizer() {
        return marked(world);
    }
    Plan::act(Action::Commit(Box::new(status))).with_notices([notice])
}

fn uninstallation(release: &str) -> HelmProgress {
    HelmProgress {
        release: release.to_owned(),
        step: HelmStep::PreDeleteHooks,
        revision: None,
        uid: None,
        hooks_done: 0,
        objects_done: 0,
        objects_failed: 0,
        hook: None,
        kept: None,
        skipped: None,
        message: None,
    }
}

/// What would be deleted.
fn dry_run(objects: &[PlannedObject], checked: &Checked) -> String {
    let mut message = format!(
        "all conditions are true; {} would be deleted, but spec.dryRun is true",
        report::counted(objects)
    );
    if let Some(release) = &checked.helm {
        message += &format!("; the Helm release {release} would be uninstalled");
    }
    if checked.sink.is_some() {
        message += "; a CloudEvent would be sent";
    }
    message
}

/// The part of the period by which a look may be late, so that Cleaners which were made together do not all look at once.
pub(crate) const JITTER_MAX: f64 = 0.1;

/// The look after one at this time: a period later, and that part of it. One that was planned before is kept if it is still to come:
/// changes of targets do not put it off.
fn next_look(
    at: Timestamp,
    period: Duration,
    jitter: f64,
    planned: Option<Timestamp>,
) -> Timestamp {
    let after = |part: f64| millis_up(later(at, stretched(period, part)));
    let planned = planned.filter(|planned| *planned > at && *planned <= after(JITTER_MAX));
    planned.unwrap_or_else(|| after(jitter.clamp(0.0, JITTER_MAX)))
}

/// A duration and a part of it.
fn stretched(period: Duration, part: f64) -> Duration {
    let more = Duration::try_from_secs_f64(period.as_secs_f64() * part);
    period.saturating_add(more.unwrap_or_default())
}

/// The first whole millisecond from this time on, since texts of times in a status should be short.
fn millis_up(time: Timestamp) -> Timestamp {
    let millis = time.as_microsecond().div_euclid(1000);
    let whole = Timestamp::from_millisecond(millis);
    match whole {
        Ok(whole) if whole < time => Timestamp::from_millisecond(millis + 1).unwrap_or(time),
        Ok(whole) => whole,
        Err(_) => time,
    }
}

#[cfg(test)]
mod tests;

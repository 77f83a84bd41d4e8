//! The next step for a Cleaner that deletes: one phase after another, by what the status says and nothing else.

use std::time::Duration;

use jiff::Timestamp;
use podloom_api::{DeletionPhase, DeletionProgress, ObjectOutcome, PlannedObject};
use podloom_engine::plan::{Plan, Then, later};

use super::progress::{LATE_INTERVAL, advanced, record};
use super::{delivering, released, report, uninstalling};
use crate::action::{Action, Fate};
use crate::rules::Rules;
use crate::world::World;
use crate::{frozen, status};

/// How long it waits at least until it looks again whether objects are gone.
const CONFIRM_FIRST: Duration = Duration::from_secs(1);
/// How long it waits at most.
const CONFIRM_LONGEST: Duration = Duration::from_secs(30);

/// Why nothing is deleted in some namespaces.
const EXCLUDED: &str =
    "the operator deletes nothing in this namespace, by its flag --cleaner-excluded-namespaces";

/// Plans the next step of a deletion; `written` is how far it is, as the status says it.
pub(super) fn plan(world: &World, written: &DeletionProgress, now: Timestamp) -> Plan<Action> {
    let progress = world.learned.progress.as_ref().unwrap_or(written);
    match progress.phase {
        DeletionPhase::Targets => targets(world, written, progress, now),
        DeletionPhase::Helm => uninstalling::plan(world, written, progress, now),
        DeletionPhase::Event => delivering::plan(world, written, progress, now),
        DeletionPhase::Done => match progress == written {
            true => released(world),
            false => record(world, written, progress.clone(), now),
        },
    }
}

/// The next step of the phase in which the targets are deleted.
fn targets(
    world: &World,
    written: &DeletionProgress,
    progress: &DeletionProgress,
    now: Timestamp,
) -> Plan<Action> {
    let rules = Rules::of(world.spec());
    if let Some(skipped) = without_forged(world, progress, &rules) {
        return record(world, written, skipped, now);
    }
    let deadline = later(progress.phase_started_at.0, rules.timeout);
    let is_late = deadline <= now;
    let open = places(progress, |it| it.outcome.is_none());
    let attempted = world.recalled.attempted.filter(|at| *at <= now);
    let pause = attempted.map(|at| later(at, LATE_INTERVAL));
    let is_pausing = is_late && pause.is_some_and(|until| now < until);
    if !open.is_empty() && !world.learned.has_deleted && !is_pausing {
        return Plan::act(Action::DeleteTargets(open));
    }
    let accepted = places(progress, |it| it.outcome == Some(ObjectOutcome::Accepted));
    let waits = rules.waits_for_gone && !accepted.is_empty();
    if open.is_empty() && waits && !world.learned.has_confirmed {
        return Plan::act(Action::Confirm(accepted));
    }
    if open.is_empty() && (!waits || is_late) {
        let plan = record(world, written, advanced(progress, now), now);
        let left = waits.then(|| report::not_gone(progress, rules.timeout));
        return plan.with_notices(left);
    }
    let late = (is_late && !open.is_empty()).then(|| {
        let timeout = podloom_api::duration::print(rules.timeout);
        format!(
            "{} of {} objects could not be deleted within {timeout}; the operator tries again every 5 minutes",
            open.len(),
            progress.objects.len()
        )
    });
    let wanted = status::deleting(world, progress.clone(), late.as_deref(), now);
    if world.status() != Some(&wanted) {
        let mut notices = report::deleted(written, progress);
        notices.extend(late.as_ref().and_then(|late| report::late(world, late)));
        return Plan::act(Action::WriteStatus(Box::new(wanted))).with_notices(notices);
    }
    Plan::wait(match (open.is_empty(), is_late) {
        (true, _) => Then::At(next_confirmation(progress, deadline, now)),
        (false, true) => Then::At(pause.unwrap_or_else(|| later(now, LATE_INTERVAL))),
        (false, false) => Then::Retry {
            reason: "DeleteTarget",
            message: match open.len() {
                1 => "1 object could not be deleted".to_owned(),
                count => format!("{count} objects could not be deleted"),
            },
            until: deadline,
        },
    })
}

/// The progress with the objects skipped that must not be deleted; none if there is no such object.
fn without_forged(
    world: &World,
    progress: &DeletionProgress,
    rules: &Rules,
) -> Option<DeletionProgress> {
    let excluded = world.is_excluded().then(|| EXCLUDED.to_owned());
    let all = excluded.or_else(|| rules.objection_to_all(progress));
    let objection = |object: &PlannedObject| {
        let own = || rules.objection(object, world.namespace());
        all.clone().or_else(|| own().map(str::to_owned))
    };
    let open = progress.objects.iter().enumerate();
    let open = open.filter(|(_, object)| object.outcome.is_none());
    let skipped = |(place, object)| Some((place, Fate::Skipped(objection(object)?)));
    let fates: Vec<(usize, Fate)> = open.filter_map(skipped).collect();
    (!fates.is_empty()).then(|| {
        let mut progress = progress.clone();
        frozen::fold(&mut progress, fates);
        progress
    })
}

/// The places of the objects with something in common.
fn places(progress: &DeletionProgress, is: impl Fn(&PlannedObject) -> bool) -> Vec<usize> {
    let objects = progress.objects.iter().enumerate();
    objects
        .filter(|(_, object)| is(object))
        .map(|(place, _)| place)
        .collect()
}

/// When to look again whether objects are gone: the longer it takes, the later.
fn next_confirmation(
    progress: &DeletionProgress,
    deadline: Timestamp,
    now: Timestamp,
) -> Timestamp {
    let elapsed = now.duration_since(progress.phase_started_at.0);
    let elapsed = Duration::try_from(elapsed).unwrap_or_default();
    let wait = (elapsed / 4).clamp(CONFIRM_FIRST, CONFIRM_LONGEST);
    later(now, wait).min(deadline)
}

//! The next step for a Cleaner that deletes: one phase after another, by what the status says and nothing else.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use podloom_api::{DeletionPhase, DeletionProgress, ObjectOutcome, PlannedObject, duration};
use podloom_engine::events::Notice;
use podloom_engine::plan::{Plan, Then, later};

use crate::delivery::DeliveryStep;
use crate::frozen::Rules;
use crate::helm::Step;
use crate::plan::{released, report};
use crate::world::{Action, Fate, World};
use crate::{delivery, frozen, helm, status};

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
        DeletionPhase::Helm => uninstalling(world, written, progress, now),
        DeletionPhase::Event => delivering(world, written, progress, now),
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
    let notices = report::deleted(written, progress);
    if let Some(plan) = unwritten(world, progress, late.as_deref(), notices, now) {
        return plan;
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

/// How long a phase that is late waits between two attempts.
const LATE_INTERVAL: Duration = Duration::from_mins(5);

/// Plans to write how far the deletion is; the finalizer goes if all is done.
fn record(
    world: &World,
    written: &DeletionProgress,
    progress: DeletionProgress,
    now: Timestamp,
) -> Plan<Action> {
    // Nothing is lost if nobody learns that only the phase has changed: with the finalizer, the status goes too.
    if progress.phase == DeletionPhase::Done && progress.objects == written.objects {
        return released(world).with_notices(report::deleted(written, &progress));
    }
    let notices = report::deleted(written, &progress);
    let status = status::deleting(world, progress, None, now);
    Plan::act(Action::WriteStatus(Box::new(status))).with_notices(notices)
}

/// Plans to write how far a phase is and whether it is late, with these Events; none if the status says so already.
fn unwritten(
    world: &World,
    progress: &DeletionProgress,
    late: Option<&str>,
    notices: impl IntoIterator<Item = Notice>,
    now: Timestamp,
) -> Option<Plan<Action>> {
    let wanted = status::deleting(world, progress.clone(), late, now);
    let late = late.and_then(|late| report::late(world, late));
    let notices = notices.into_iter().chain(late);
    (world.status() != Some(&wanted))
        .then(|| Plan::act(Action::WriteStatus(Box::new(wanted))).with_notices(notices))
}

/// Returns the progress once a phase is done.
fn advanced(progress: &DeletionProgress, now: Timestamp) -> DeletionProgress {
    let next = match progress.phase {
        DeletionPhase::Targets if progress.helm.is_some() => DeletionPhase::Helm,
        DeletionPhase::Targets | DeletionPhase::Helm if progress.event.is_some() => {
            DeletionPhase::Event
        }
        _ => DeletionPhase::Done,
    };
    DeletionProgress {
        phase: next,
        phase_started_at: MicroTime(status::micros(now)),
        ..progress.clone()
    }
}

/// The next step of the phase in which the CloudEvent is delivered.
fn delivering(
    world: &World,
    written: &DeletionProgress,
    progress: &DeletionProgress,
    now: Timestamp,
) -> Plan<Action> {
    let before = progress.event.clone().unwrap_or_default();
    let attempt = world.recalled.attempt.as_ref();
    let delivery = delivery::progress(&before, attempt);
    let began = progress.phase_started_at.0;
    let then = match delivery::step(world.spec(), began, &delivery, attempt, now) {
        DeliveryStep::Delivered => {
            let notice = report::delivered();
            return record(world, written, advanced(progress, now), now).with_notices([notice]);
        }
        DeliveryStep::GivenUp => {
            let notice = report::given_up(world.spec(), &delivery);
            return record(world, written, advanced(progress, now), now).with_notices([notice]);
        }
        DeliveryStep::Send(attempt) => Plan::act(Action::Deliver(attempt)),
        DeliveryStep::Wait(until) => Plan::wait(Then::At(until)),
        DeliveryStep::WaitForSpec => Plan::wait(Then::Change),
    };
    let timeout = Rules::of(world.spec()).timeout;
    let deadline = later(began, timeout);
    let late = (deadline <= now && delivery.attempts > 0).then(|| {
        let timeout = duration::print(timeout);
        format!("the CloudEvent could not be delivered within {timeout}; the operator keeps trying")
    });
    let undelivered = report::undelivered(&before, &delivery);
    let progress = DeletionProgress {
        event: Some(delivery),
        ..progress.clone()
    };
    if let Some(plan) = unwritten(world, &progress, late.as_deref(), undelivered, now) {
        return plan;
    }
    match then.action.is_none() && now < deadline {
        true => Plan::wait(then.then.by(deadline)),
        false => then,
    }
}

/// The next step of the phase in which the Helm release is uninstalled.
fn uninstalling(
    world: &World,
    written: &DeletionProgress,
    progress: &DeletionProgress,
    now: Timestamp,
) -> Plan<Action> {
    let Some(release) = &progress.helm else {
        return record(world, written, advanced(progress, now), now);
    };
    let timeout = Rules::of(world.spec()).timeout;
    let deadline = later(progress.phase_started_at.0, timeout);
    let late = (deadline <= now).then(|| {
        format!(
            "the Helm release {} could not be uninstalled within {}; the operator tries again every 5 minutes",
            release.release,
            duration::print(timeout)
        )
    });
    // Writes what the status does not say yet, and then waits.
    let settled = |progress: &DeletionProgress, then: Then| {
        let failure = report::not_uninstalled(written, progress);
        let plan = unwritten(world, progress, late.as_deref(), failure, now);
        plan.unwrap_or_else(|| Plan::wait(then))
    };
    if progress != written {
        return settled(progress, Then::At(now));
    }
    let pauses = release.hook.is_none() && world.learned.helm.actions == 0;
    if let Some(until) = pause(world, progress, late.as_deref(), now).filter(|_| pauses) {
        return settled(progress, Then::At(until));
    }
    match helm::step(&world.helm(release), now) {
        Step::Act(action) => Plan::act(Action::Helm(action)),
        Step::Record(release) => {
            let progress = DeletionProgress {
                helm: Some(*release),
                ..progress.clone()
            };
            settled(&progress, Then::At(now))
        }
        Step::Wait(until) if late.is_some() => settled(progress, Then::At(until)),
        Step::Wait(until) => settled(progress, Then::At(until.min(deadline))),
        Step::Retry => {
            let then = match late {
                Some(_) => Then::At(later(now, LATE_INTERVAL)),
                None => Then::Retry {
                    reason: "UninstallRelease",
                    message: release.message.clone().unwrap_or_default(),
                    until: deadline,
                },
            };
            settled(progress, then)
        }
        Step::Done(ending) => {
            let plan = record(world, written, advanced(progress, now), now);
            plan.with_notices([report::uninstalled(release, ending)])
        }
    }
}

/// Until when it waits for another attempt; none if it need not wait. The longer it takes, the longer that is: hooks that fail begin
/// well, which ends the engine's own backoff.
fn pause(
    world: &World,
    progress: &DeletionProgress,
    late: Option<&str>,
    now: Timestamp,
) -> Option<Timestamp> {
    let attempted = world.recalled.attempted?;
    let elapsed = attempted.duration_since(progress.phase_started_at.0);
    let elapsed = Duration::try_from(elapsed).unwrap_or_default();
    let wait = match late {
        Some(_) => LATE_INTERVAL,
        None => (elapsed / 4).min(LATE_INTERVAL),
    };
    let until = later(attempted, wait);
    (attempted <= now && now < until).then_some(until)
}

//! The phase in which the Helm release is uninstalled.

use std::time::Duration;

use jiff::Timestamp;
use podloom_api::names::cleaner::event;
use podloom_api::{DeletionProgress, duration};
use podloom_engine::events::Notice;
use podloom_engine::plan::{Plan, Then, later};

use super::progress::{LATE_INTERVAL, advanced, record};
use super::report;
use crate::action::Action;
use crate::helm::{self, Step};
use crate::rules::Rules;
use crate::status;
use crate::world::World;

/// How far a deletion is: as the status says it, and as it is.
#[derive(Clone, Copy)]
struct Progress<'a> {
    written: &'a DeletionProgress,
    now: &'a DeletionProgress,
}

/// Plans the next step; `written` is how far the deletion is, as the status says it.
pub(super) fn plan(
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
    let both = Progress {
        written,
        now: progress,
    };
    if progress != written {
        return write(world, both, late.as_deref(), now);
    }
    let pauses = release.hook.is_none() && world.learned.helm.actions == 0;
    if let Some(until) = pause(world, progress, late.as_deref(), now).filter(|_| pauses) {
        return settled(world, both, (late.as_deref(), Then::At(until)), now);
    }
    match helm::step(&world.helm(release), now) {
        Step::Act(action) => Plan::act(Action::Helm(action)),
        Step::Record(release) => {
            let progress = DeletionProgress {
                helm: Some(*release),
                ..progress.clone()
            };
            let both = Progress {
                written,
                now: &progress,
            };
            write(world, both, late.as_deref(), now)
        }
        Step::Wait(until) => {
            let until = match late {
                Some(_) => until,
                None => until.min(deadline),
            };
            settled(world, both, (late.as_deref(), Then::At(until)), now)
        }
        Step::Retry => {
            let then = match late {
                Some(_) => Then::At(later(now, LATE_INTERVAL)),
                None => Then::Retry {
                    reason: "UninstallRelease",
                    message: release.message.clone().unwrap_or_default(),
                    until: deadline,
                },
            };
            settled(world, both, (late.as_deref(), then), now)
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

/// Writes how far it is.
fn write(world: &World, both: Progress<'_>, late: Option<&str>, now: Timestamp) -> Plan<Action> {
    let status = status::deleting(world, both.now.clone(), late, now);
    let message = |progress: &DeletionProgress| progress.helm.as_ref()?.message.clone();
    let failure = message(both.now).filter(|new| message(both.written).as_ref() != Some(new));
    let mut notices: Vec<Notice> = failure
        .map(|failure| Notice::warning(event::HELM_UNINSTALL_FAILED, failure))
        .into_iter()
        .collect();
    let new_late = late.and_then(|late| report::late(world, late));
    notices.extend(new_late);
    Plan::act(Action::WriteStatus(Box::new(status))).with_notices(notices)
}

/// Waits once the status says how far it is.
fn settled(
    world: &World,
    both: Progress<'_>,
    (late, then): (Option<&str>, Then),
    now: Timestamp,
) -> Plan<Action> {
    let wanted = status::deleting(world, both.now.clone(), late, now);
    match world.status() == Some(&wanted) {
        true => Plan::wait(then),
        false => write(world, both, late, now),
    }
}

//! The next step of an uninstallation. Pure: the same world and time give the same step.

use jiff::Timestamp;
use podloom_api::{HelmProgress, HelmStep};
use podloom_helm::Status;

use super::chart::Chart;
use super::progress::{begun, given_up, undeleted};
use super::{Ending, HelmAction, HelmWorld, Step, hooks};

/// After so many actions a pass ends, and another one goes on: the engine takes one without an end for a bug.
const ACTIONS_MAX: usize = 12;

/// Decides what comes next.
pub(crate) fn step(world: &HelmWorld<'_>, now: Timestamp) -> Step {
    let HelmWorld {
        progress, learned, ..
    } = world;
    let Some(rules) = &world.rules else {
        return Step::Done(Ending::LeftAlone);
    };
    if learned.has_failed {
        return Step::Retry;
    }
    if let Some(trouble) = &learned.trouble {
        return Step::Act(HelmAction::GiveUp(given_up(progress, trouble)));
    }
    if learned.is_purged {
        return Step::Done(Ending::Uninstalled);
    }
    if learned.actions >= ACTIONS_MAX {
        return Step::Wait(now);
    }
    let Some(records) = &learned.records else {
        return Step::Act(HelmAction::List);
    };
    let last = match (records.last(), &progress.uid) {
        (None, None) => return Step::Done(Ending::Absent),
        (None, Some(_)) => return Step::Done(Ending::Uninstalled),
        // Somebody has deleted its records; what has its name now was installed later.
        (Some(_), Some(uid)) if records.iter().all(|it| it.uid != *uid) => {
            return Step::Done(Ending::Uninstalled);
        }
        (Some(last), _) => last,
    };
    let Some(chart) = &learned.chart else {
        return Step::Act(HelmAction::Read);
    };
    // The record says that the release is being uninstalled before anything of it is deleted. A status that says more was not written
    // by the operator.
    let is_marked =
        learned.is_marked || matches!(chart.status(), Status::Uninstalling | Status::Uninstalled);
    let is_begun = progress.uid.as_deref() == Some(&last.uid)
        && (is_marked || progress.step == HelmStep::PreDeleteHooks);
    if !is_begun {
        return Step::Record(Box::new(begun(progress, last, chart)));
    }
    match progress.step {
        HelmStep::PreDeleteHooks | HelmStep::PostDeleteHooks => {
            hooks::step(world, rules, chart, now)
        }
        HelmStep::Manifest => manifest(world, chart, now),
        HelmStep::Records => Step::Act(HelmAction::Purge),
    }
}

/// The next step while the objects of the manifest are deleted.
fn manifest(world: &HelmWorld<'_>, chart: &Chart, now: Timestamp) -> Step {
    let progress = world.progress;
    let total = chart.objects.deleted.len();
    let done = usize::try_from(progress.objects_done).unwrap_or(total);
    if done < total {
        return match world.learned.has_swept {
            // It takes long: another pass goes on.
            true => Step::Wait(now),
            false => Step::Act(HelmAction::DeleteObjects(done)),
        };
    }
    if progress.objects_failed == 0 {
        return Step::Record(Box::new(HelmProgress {
            step: HelmStep::PostDeleteHooks,
            message: None,
            ..progress.clone()
        }));
    }
    let first = progress.message.as_deref().unwrap_or_default();
    let message = undeleted(progress, total, first);
    // All are looked at again: those that are gone cost a request each.
    let again = HelmProgress {
        objects_done: 0,
        objects_failed: 0,
        ..progress.clone()
    };
    Step::Act(HelmAction::GiveUp(given_up(&again, &message)))
}

//! The next step of an uninstallation. Pure: the same world and time give the same step.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use podloom_api::{HelmHookRun, HelmProgress, HelmStep, duration};
use podloom_engine::plan::later;
use podloom_engine::shown::at_most;
use podloom_helm::{HookDeletePolicy, Status};

use crate::helm::chart::{Chart, PlannedHook};
use crate::helm::{
    Ending, HelmAction, HelmLearned, HelmOutcome, HelmRules, HelmWorld, SeenHook, Step,
    StoredRecord, Sweep,
};

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
        HelmStep::PreDeleteHooks | HelmStep::PostDeleteHooks => hooks(world, rules, chart, now),
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

/// How long it takes at least until a hook is looked at again.
const POLL_FIRST: Duration = Duration::from_secs(1);
/// How long it takes at most: a Job may be deleted soon after it has ended.
const POLL_LONGEST: Duration = Duration::from_secs(10);

/// The next step while hooks run.
fn hooks(world: &HelmWorld<'_>, rules: &HelmRules, chart: &Chart, now: Timestamp) -> Step {
    let progress = world.progress;
    let hooks = chart.hooks(progress.step);
    let done = usize::try_from(progress.hooks_done).unwrap_or(hooks.len());
    let hook = match hooks.get(done) {
        Some(hook) if !rules.disables_hooks => hook,
        _ => return after(world, rules, chart),
    };
    let object = match &hook.object {
        Ok(object) => object,
        Err(why) => return failed(world, hook, why),
    };
    let Some(run) = &progress.hook else {
        let run = HelmHookRun {
            kind: object.kind.clone(),
            name: object.name.clone(),
            uid: None,
            started_at: MicroTime(micros(now)),
        };
        return record(HelmProgress {
            hook: Some(run),
            ..progress.clone()
        });
    };
    if (&run.kind, &run.name) != (&object.kind, &object.name) {
        // Somebody has changed the record.
        return record(HelmProgress {
            hook: None,
            hooks_done: 0,
            ..progress.clone()
        });
    }
    running(world, (hook, run), rules.hook_timeout, now)
}

/// The next step while a hook runs.
fn running(
    world: &HelmWorld<'_>,
    (hook, run): (&PlannedHook, &HelmHookRun),
    timeout: Duration,
    now: Timestamp,
) -> Step {
    let progress = world.progress;
    let place = (progress.step, progress.hooks_done);
    let Some((_, seen)) = world.learned.hook.as_ref().filter(|it| it.0 == place) else {
        return Step::Act(HelmAction::LookAtHook);
    };
    let deadline = later(run.started_at.0, timeout);
    let late = || format!("it took longer than {}", duration::print(timeout));
    let is_discarded = world.learned.discarded == Some(place);
    let discarded = |uid: &str, why: &str| match hook.hook.is_deleted(HookDeletePolicy::HookFailed)
        && !is_discarded
    {
        true => Step::Act(HelmAction::DeleteHook(uid.to_owned())),
        false => failed(world, hook, why),
    };
    let wait = || Step::Wait(next_look(run.started_at.0, now).min(deadline));
    match (seen, &run.uid) {
        (SeenHook::Missing | SeenHook::Other { .. }, Some(_)) => {
            failed(world, hook, "its object was deleted before it had a result")
        }
        (SeenHook::Missing, None) => Step::Act(HelmAction::CreateHook),
        (SeenHook::Other { .. }, None) if deadline <= now => failed(world, hook, &late()),
        (
            SeenHook::Other {
                is_terminating: true,
                ..
            },
            None,
        ) => wait(),
        (SeenHook::Other { uid, .. }, None) => {
            match hook.hook.is_deleted(HookDeletePolicy::BeforeHookCreation) {
                true => Step::Act(HelmAction::DeleteHook(uid.clone())),
                false => failed(world, hook, "there is an object of its name already"),
            }
        }
        (SeenHook::Running { uid }, None) => record(HelmProgress {
            hook: Some(HelmHookRun {
                uid: Some(uid.clone()),
                ..run.clone()
            }),
            ..progress.clone()
        }),
        (SeenHook::Running { uid }, Some(_)) if deadline <= now => discarded(uid, &late()),
        (SeenHook::Running { .. }, Some(_)) => wait(),
        (SeenHook::Succeeded { .. }, _) => record(HelmProgress {
            hook: None,
            hooks_done: progress.hooks_done.saturating_add(1),
            ..progress.clone()
        }),
        (
            SeenHook::Failed {
                uid: Some(uid),
                message,
            },
            _,
        ) => discarded(uid, message),
        (SeenHook::Failed { uid: None, message }, _) => failed(world, hook, message),
    }
}

/// The next step once no hook of this step is left to run.
fn after(world: &HelmWorld<'_>, rules: &HelmRules, chart: &Chart) -> Step {
    let HelmWorld {
        progress, learned, ..
    } = world;
    let hooks = chart.hooks(progress.step).iter();
    let mut deleted = hooks.filter(|it| it.hook.is_deleted(HookDeletePolicy::HookSucceeded));
    let is_tidied = learned.tidied == Some(progress.step) || deleted.next().is_none();
    if !rules.disables_hooks && !is_tidied {
        return Step::Act(HelmAction::TidyHooks);
    }
    match progress.step {
        HelmStep::PreDeleteHooks if learned.is_marked || chart.status() == Status::Uninstalling => {
            record(unhooked(progress, chart))
        }
        HelmStep::PreDeleteHooks => Step::Act(HelmAction::Mark),
        _ => record(purging(progress, progress.message.clone())),
    }
}

/// The next step once a hook has failed. Before the deletion, it ends the attempt, and nothing is deleted. After it, the records go all
/// the same.
fn failed(world: &HelmWorld<'_>, hook: &PlannedHook, why: &str) -> Step {
    let progress = world.progress;
    let (kind, name) = (&hook.hook.kind, &hook.hook.name);
    match progress.step {
        HelmStep::PostDeleteHooks => {
            let message = format!("post-delete hook {kind} {name} failed: {why}");
            record(purging(progress, Some(text(&message))))
        }
        _ => {
            let message = format!("pre-delete hook {kind} {name} failed: {why}");
            let again = HelmProgress {
                hook: None,
                hooks_done: 0,
                ..progress.clone()
            };
            Step::Act(HelmAction::GiveUp(given_up(&again, &message)))
        }
    }
}

fn purging(progress: &HelmProgress, message: Option<String>) -> HelmProgress {
    HelmProgress {
        step: HelmStep::Records,
        hook: None,
        hooks_done: 0,
        message,
        ..progress.clone()
    }
}

fn record(progress: HelmProgress) -> Step {
    Step::Record(Box::new(progress))
}

/// When to look at a hook again: the longer it takes, the later.
fn next_look(started: Timestamp, now: Timestamp) -> Timestamp {
    let elapsed = Duration::try_from(now.duration_since(started)).unwrap_or_default();
    later(now, (elapsed / 4).clamp(POLL_FIRST, POLL_LONGEST))
}

/// A time as a status stores it.
fn micros(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time)
}

/// How much is kept of what went wrong, in bytes.
const MESSAGE_MAX: usize = 256;
/// How many objects are listed as kept, and as skipped.
const LISTED_MAX: usize = 100;
/// How much of each is listed, in bytes.
const LISTED_BYTES: usize = 256;

/// The progress of a release from whose records nothing was done yet: it is new, or has a later revision since.
pub(super) fn begun(progress: &HelmProgress, last: &StoredRecord, chart: &Chart) -> HelmProgress {
    HelmProgress {
        release: progress.release.clone(),
        step: match chart.status() {
            // Helm has kept the history, as the user wanted.
            Status::Uninstalled => HelmStep::Records,
            _ => HelmStep::PreDeleteHooks,
        },
        revision: Some(last.revision),
        uid: Some(last.uid.clone()),
        hooks_done: 0,
        objects_done: 0,
        objects_failed: 0,
        hook: None,
        kept: None,
        skipped: None,
        message: None,
    }
}

/// The progress once the hooks before the deletion are done.
pub(super) fn unhooked(progress: &HelmProgress, chart: &Chart) -> HelmProgress {
    HelmProgress {
        step: HelmStep::Manifest,
        hooks_done: 0,
        hook: None,
        objects_done: 0,
        objects_failed: 0,
        kept: listed(None, chart.kept()),
        skipped: None,
        message: None,
        ..progress.clone()
    }
}

/// The progress of an attempt that has failed: the next one goes on from there.
pub(super) fn given_up(progress: &HelmProgress, message: &str) -> Box<HelmProgress> {
    Box::new(HelmProgress {
        message: Some(text(message)),
        ..progress.clone()
    })
}

/// Returns the message about objects that cannot be deleted; it says why the first cannot.
pub(super) fn undeleted(progress: &HelmProgress, total: usize, first: &str) -> String {
    let failed = progress.objects_failed;
    let counted = format!("{failed} of {total} objects of the release cannot be deleted");
    match first.starts_with(&counted) {
        true => first.to_owned(),
        false => text(&format!("{counted}; the first: {first}")),
    }
}

/// Returns a message as a status may hold it.
pub(super) fn text(message: &str) -> String {
    cut(message, MESSAGE_MAX)
}

/// Adds objects to a list in the status; none if it is empty.
pub(super) fn listed(before: Option<&[String]>, more: Vec<String>) -> Option<Vec<String>> {
    let mut all: Vec<String> = before.unwrap_or_default().to_vec();
    for object in more {
        let object = cut(&object, LISTED_BYTES);
        if all.len() == LISTED_MAX {
            all.push("and more".to_owned());
        }
        if all.len() < LISTED_MAX && !all.contains(&object) {
            all.push(object);
        }
    }
    (!all.is_empty()).then_some(all)
}

/// Whoever writes records writes names and kinds: in one line.
fn cut(text: &str, most: usize) -> String {
    at_most(most, text.replace(char::is_control, " "))
}

/// Puts what came of an action into the progress and into what the pass knows.
pub(crate) fn learn(progress: &mut HelmProgress, learned: &mut HelmLearned, outcome: HelmOutcome) {
    learned.actions = learned.actions.saturating_add(1);
    let place = (progress.step, progress.hooks_done);
    match outcome {
        HelmOutcome::Listed(records) => learned.records = Some(records),
        HelmOutcome::Read(chart) => learned.chart = Some(chart),
        HelmOutcome::Seen(hook) => learned.hook = Some((place, hook)),
        HelmOutcome::HookDeleted => match learned.hook {
            // It may be gone already.
            Some((_, SeenHook::Other { .. })) => learned.hook = None,
            _ => learned.discarded = Some(place),
        },
        HelmOutcome::Tidied(left) => {
            learned.tidied = Some(progress.step);
            if let Some(left) = left {
                progress.message = Some(text(&left));
            }
        }
        HelmOutcome::Marked => learned.is_marked = true,
        HelmOutcome::Swept(sweep) => {
            learned.has_swept = true;
            swept(progress, sweep);
        }
        HelmOutcome::Purged => learned.is_purged = true,
        HelmOutcome::GaveUp(ended) => {
            learned.has_failed = true;
            *progress = *ended;
        }
        HelmOutcome::Unfinished => learned.actions = usize::MAX,
        HelmOutcome::Trouble(trouble) => learned.trouble = Some(trouble),
    }
}

fn swept(progress: &mut HelmProgress, sweep: Sweep) {
    let is_first = progress.objects_failed == 0;
    progress.objects_done = progress.objects_done.saturating_add(sweep.done);
    progress.objects_failed = progress.objects_failed.saturating_add(sweep.failed);
    if let (true, Some(failure)) = (is_first, &sweep.first_failure) {
        let is_whole = usize::try_from(progress.objects_done) == Ok(sweep.total);
        progress.message = Some(match is_whole {
            true => undeleted(progress, sweep.total, failure),
            false => text(failure),
        });
    }
    progress.skipped = listed(progress.skipped.as_deref(), sweep.skipped);
}

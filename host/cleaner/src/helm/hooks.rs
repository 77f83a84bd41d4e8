//! The next step while hooks run. Pure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use podloom_api::{HelmHookRun, HelmProgress, HelmStep, duration};
use podloom_engine::plan::later;
use podloom_helm::{HookDeletePolicy, Status};

use super::chart::{Chart, PlannedHook};
use super::progress::{given_up, text, unhooked};
use super::rules::HelmRules;
use super::{HelmAction, HelmWorld, SeenHook, Step};

/// How long it takes at least until a hook is looked at again.
const POLL_FIRST: Duration = Duration::from_secs(1);
/// How long it takes at most: a Job may be deleted soon after it has ended.
const POLL_LONGEST: Duration = Duration::from_secs(10);

/// Decides what comes next.
pub(super) fn step(
    world: &HelmWorld<'_>,
    rules: &HelmRules,
    chart: &Chart,
    now: Timestamp,
) -> Step {
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
        (SeenHook::Other { uid, .. }, None) => {
            let is_deleted = hook.hook.is_deleted(HookDeletePolicy::BeforeHookCreation);
            match (seen.is_terminating(), is_deleted) {
                (true, _) => wait(),
                (false, true) => Step::Act(HelmAction::DeleteHook(uid.clone())),
                (false, false) => failed(world, hook, "there is an object of its name already"),
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

impl SeenHook {
    fn is_terminating(&self) -> bool {
        matches!(
            self,
            Self::Other {
                is_terminating: true,
                ..
            }
        )
    }
}

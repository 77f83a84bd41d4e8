//! The objects of hooks. Each that is created says which run of which Cleaner it is.

use std::sync::Arc;

use podloom_api::names::cleaner::annotation::{HOOK_RUN, PROTECT};
use podloom_api::{HelmHookRun, PropagationPolicy};
use podloom_engine::kind::ResourceScope;
use podloom_helm::{ChartObject, HookDeletePolicy};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::{BEGIN_WITHIN, Tools, chart, told};
use crate::discovery::KindError;
use crate::failure::{FailureKind, RequestError};
use crate::helm::chart::PlannedHook;
use crate::helm::{HelmOutcome, HelmWorld, SeenHook};
use crate::objects::Place;
use crate::served::ServedKind;
use crate::sight::metadata;

const DELETION_TIMESTAMP: &str = "deletionTimestamp";
/// How many seconds a Job stays at least after it has ended: longer than it takes until it is looked at, also after a restart.
const JOB_STAYS: i64 = 300;

/// The hook whose turn it is.
struct Turn<'a> {
    hook: &'a PlannedHook,
    object: &'a ChartObject,
    run: &'a HelmHookRun,
    kind: Arc<ServedKind>,
}

/// Looks at the object of the hook whose turn it is.
pub(super) async fn look(tools: Tools<'_>, world: &HelmWorld<'_>) -> HelmOutcome {
    let turn = match turn(tools, world).await {
        Ok(turn) => turn,
        Err(outcome) => return outcome,
    };
    match tools.objects.get(turn.place(world)).await {
        Ok(None) => HelmOutcome::Seen(SeenHook::Missing),
        Ok(Some(found)) => HelmOutcome::Seen(seen(&turn, &found, world)),
        Err(error) => {
            tools.forget(&turn.kind, &error).await;
            failed(&error)
        }
    }
}

/// Creates the object of the hook whose turn it is.
pub(super) async fn create(tools: Tools<'_>, world: &HelmWorld<'_>) -> HelmOutcome {
    let turn = match turn(tools, world).await {
        Ok(turn) => turn,
        Err(outcome) => return outcome,
    };
    let (hook, namespace) = (turn.hook.hook.clone(), world.namespace.to_owned());
    let read = tools.blocking.run(move || hook.object(&namespace));
    let document = match read.await {
        Ok(object) => prepared(&turn, object.document, run_id(world, turn.run)),
        Err(error) => return impossible(error.to_string()),
    };
    let created = tools
        .objects
        .create(&turn.kind, world.namespace, &document)
        .await;
    match created {
        Ok(created) => HelmOutcome::Seen(seen(&turn, &created, world)),
        // Somebody was faster: the next pass looks.
        Err(error) if error.kind == FailureKind::Conflict => HelmOutcome::Trouble(told(&error)),
        Err(error) => {
            tools.forget(&turn.kind, &error).await;
            failed(&error)
        }
    }
}

/// Deletes the object with this UID that has the place of the hook whose turn it is.
pub(super) async fn delete(tools: Tools<'_>, world: &HelmWorld<'_>, uid: &str) -> HelmOutcome {
    let turn = match turn(tools, world).await {
        Ok(turn) => turn,
        Err(outcome) => return outcome,
    };
    let place = turn.place(world);
    let deleted = tools
        .objects
        .delete(place, uid, PropagationPolicy::Background);
    match deleted.await {
        Ok(_) => HelmOutcome::HookDeleted,
        Err(error) if error.kind == FailureKind::Conflict => HelmOutcome::Trouble(told(&error)),
        // A hook that has failed stays then.
        Err(error) if turn.run.uid.is_some() && !error.is_transient() => HelmOutcome::HookDeleted,
        Err(error) => failed(&error),
    }
}

/// Deletes the objects of hooks that have succeeded. Only those that this Cleaner has created: others of their names stay.
pub(super) async fn tidy(tools: Tools<'_>, world: &HelmWorld<'_>) -> HelmOutcome {
    let chart = match chart(world) {
        Ok(chart) => chart,
        Err(outcome) => return outcome,
    };
    let began = Instant::now();
    let mut left = None;
    let hooks = chart.hooks(world.progress.step).iter();
    for hook in hooks.filter(|it| it.hook.is_deleted(HookDeletePolicy::HookSucceeded)) {
        let Ok(object) = &hook.object else { continue };
        if began.elapsed() > BEGIN_WITHIN {
            return HelmOutcome::Unfinished;
        }
        match tidied(tools, world, object).await {
            Ok(()) => {}
            Err(error) if error.is_transient() => return HelmOutcome::Trouble(told(&error)),
            Err(error) => {
                let (kind, name) = (&hook.hook.kind, &hook.hook.name);
                left.get_or_insert(format!(
                    "the object of hook {kind} {name} stays: {}",
                    told(&error)
                ));
            }
        }
    }
    HelmOutcome::Tidied(left)
}

async fn tidied(
    tools: Tools<'_>,
    world: &HelmWorld<'_>,
    object: &ChartObject,
) -> Result<(), RequestError> {
    let kind = match tools.kind(object).await {
        Ok(kind) if kind.scope == ResourceScope::Namespaced => kind,
        Ok(_) | Err(KindError::Unknown(_)) => return Ok(()),
        Err(KindError::Request(error)) => return Err(error),
    };
    let place = Place {
        kind: &kind,
        namespace: Some(world.namespace),
        name: &object.name,
    };
    let Some(found) = tools.objects.get(place).await? else {
        return Ok(());
    };
    let is_ours = text(&found, HOOK_RUN)
        .split_once('/')
        .is_some_and(|(cleaner, _)| cleaner == world.cleaner);
    if is_ours {
        let uid = metadata(&found, "uid");
        tools
            .objects
            .delete(place, uid, PropagationPolicy::Background)
            .await?;
    }
    Ok(())
}

/// Finds the hook whose turn it is, and the kind of its object.
async fn turn<'a>(tools: Tools<'_>, world: &'a HelmWorld<'_>) -> Result<Turn<'a>, HelmOutcome> {
    let progress = world.progress;
    let hooks = chart(world)?.hooks(progress.step);
    let hook = usize::try_from(progress.hooks_done)
        .ok()
        .and_then(|place| hooks.get(place));
    let (Some(hook), Some(run)) = (hook, &progress.hook) else {
        return Err(HelmOutcome::Trouble("no hook runs".to_owned()));
    };
    let object = hook
        .object
        .as_ref()
        .map_err(|why| impossible(why.clone()))?;
    let kind = match tools.kind(object).await {
        Ok(kind) => kind,
        Err(KindError::Unknown(why)) => return Err(impossible(why)),
        Err(KindError::Request(error)) => return Err(failed(&error)),
    };
    if kind.scope == ResourceScope::Cluster {
        let text = "its object would be in no namespace";
        return Err(impossible(text.to_owned()));
    }
    Ok(Turn {
        hook,
        object,
        run,
        kind,
    })
}

impl Turn<'_> {
    fn place<'a>(&'a self, world: &HelmWorld<'a>) -> Place<'a> {
        Place {
            kind: &self.kind,
            namespace: Some(world.namespace),
            name: &self.object.name,
        }
    }
}

/// What an object is to a run of a hook.
fn seen(turn: &Turn<'_>, found: &Value, world: &HelmWorld<'_>) -> SeenHook {
    let uid = metadata(found, "uid").to_owned();
    // A crash may have kept its UID from the status; and whoever may write the status could have written any UID there.
    let is_ours = text(found, HOOK_RUN) == run_id(world, turn.run)
        && turn.run.uid.as_ref().is_none_or(|ours| *ours == uid);
    if !is_ours && text(found, PROTECT) == "true" {
        let message = format!("the annotation {PROTECT} protects an object of its name");
        return SeenHook::Failed { uid: None, message };
    }
    if !is_ours {
        return SeenHook::Other {
            uid,
            is_terminating: !found["metadata"][DELETION_TIMESTAMP].is_null(),
        };
    }
    match &turn.kind {
        kind if kind.is("batch", "Job") => job(found, uid),
        kind if kind.is("", "Pod") => pod(found, uid),
        _ => SeenHook::Succeeded { uid },
    }
}

fn job(job: &Value, uid: String) -> SeenHook {
    let conditions = job["status"]["conditions"].as_array();
    let is_true = |type_: &str| {
        let mut conditions = conditions.into_iter().flatten();
        conditions.find(|it| it["type"] == type_ && it["status"] == "True")
    };
    if is_true("Complete").is_some() {
        return SeenHook::Succeeded { uid };
    }
    match is_true("Failed") {
        Some(condition) => {
            let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
            let message = format!("{}: {}", text("reason"), text("message"));
            SeenHook::Failed {
                uid: Some(uid),
                message,
            }
        }
        None => SeenHook::Running { uid },
    }
}

fn pod(pod: &Value, uid: String) -> SeenHook {
    match pod["status"]["phase"].as_str() {
        Some("Succeeded") => SeenHook::Succeeded { uid },
        Some("Failed") => SeenHook::Failed {
            uid: Some(uid),
            message: "the phase of the pod is Failed".to_owned(),
        },
        _ => SeenHook::Running { uid },
    }
}

/// What the object of a run is annotated with.
fn run_id(world: &HelmWorld<'_>, run: &HelmHookRun) -> String {
    format!("{}/{}", world.cleaner, run.started_at.0)
}

/// The value of an annotation; empty if there is none.
fn text<'a>(object: &'a Value, annotation: &str) -> &'a str {
    let value = &object["metadata"]["annotations"][annotation];
    value.as_str().unwrap_or_default()
}

/// The object with our annotation. A Job stays long enough for its result to be seen: nobody watches it.
fn prepared(turn: &Turn<'_>, mut document: Value, run: String) -> Value {
    let annotations = &mut document["metadata"]["annotations"];
    if !annotations.is_object() {
        *annotations = Value::Object(Map::new());
    }
    annotations[HOOK_RUN] = run.into();
    let ttl = match turn.kind.is("batch", "Job") {
        true => document.pointer_mut("/spec/ttlSecondsAfterFinished"),
        false => None,
    };
    if let Some(ttl) = ttl.filter(|ttl| ttl.as_i64().is_some_and(|ttl| ttl < JOB_STAYS)) {
        *ttl = JOB_STAYS.into();
    }
    document
}

/// A request failed: the hook too, unless it may go well later.
fn failed(error: &RequestError) -> HelmOutcome {
    match error.is_transient() {
        true => HelmOutcome::Trouble(told(error)),
        false => impossible(told(error)),
    }
}

fn impossible(message: String) -> HelmOutcome {
    HelmOutcome::Seen(SeenHook::Failed { uid: None, message })
}

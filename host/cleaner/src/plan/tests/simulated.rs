//! Passes in a cluster that answers as a case says. Whatever is planned, the rules that protect objects hold.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use podloom_api::CleanerStatus;
use podloom_cel::Variables;
use podloom_engine::events::Notice;
use podloom_engine::kind::{Kind, Remains};
use podloom_engine::plan::Then;
use podloom_scripted::difference;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::setting::Cluster;
use crate::fixtures::cleaner_kind;
use crate::helm::{HelmAction, HelmOutcome};
use crate::kind::CleanerKind;
use crate::memory::{Attempt, AttemptState};
use crate::plan::plan;
use crate::read::Sight;
use crate::world::World;
use crate::world::{Action, ActionOutcome, Fate};

/// What a pass did.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Pass {
    pub(super) steps: Vec<Step>,
    /// What it waits for; none if nothing is left of the Cleaner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) then: Option<Then>,
}

#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Step {
    #[serde(skip)]
    pub(super) action: Action,
    /// The action, with what it changes in the status instead of the whole status.
    #[serde(rename = "action")]
    shown: Value,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) notices: Vec<Notice>,
}

/// An action as a snapshot shows it.
fn shown(world: &World, action: &Action) -> Value {
    let (name, after) = match action {
        Action::WriteStatus(after) => ("WriteStatus", after),
        Action::Commit(after) => ("Commit", after),
        action => return serde_json::to_value(action).unwrap(),
    };
    let before = world.status().cloned().unwrap_or_default();
    json!({ name: difference(&in_lines(&before), &in_lines(after)) })
}

/// A status with a line for each condition and each object to delete, under its name, so that a difference shows those that changed.
fn in_lines(status: &CleanerStatus) -> Value {
    let conditions = status.conditions.iter().flatten().map(|it| {
        let generation = it.observed_generation.unwrap_or_default();
        let (status, reason, since) = (&it.status, &it.reason, it.last_transition_time.0);
        let line = format!(
            "{status} {reason} since {since} ({generation}): {}",
            it.message
        );
        (it.type_.clone(), Value::from(line))
    });
    let deletion = status.deletion.iter();
    let objects = deletion.flat_map(|it| it.objects.iter().enumerate());
    let objects = objects.map(|(place, it)| {
        let (kind, group, version) = (&it.kind, &it.group, &it.version);
        let identity = format!("{}/{} {} of {}", it.namespace, it.name, it.uid, it.target);
        let kind = format!("{kind} ({}.{group}/{version})", it.resource);
        let outcome = it.outcome.map_or("open".to_owned(), |it| format!("{it:?}"));
        let message = it.message.iter().map(|it| format!(": {it}"));
        let line = format!("{outcome} {kind} {identity}{}", message.collect::<String>());
        (format!("{place:02}"), Value::from(line))
    });
    let (conditions, objects): (Map<_, _>, Map<_, _>) = (conditions.collect(), objects.collect());
    let listed = status.conditions.iter().flatten().count();
    assert_eq!(conditions.len(), listed, "a condition is there twice");
    let mut value = serde_json::to_value(status).unwrap();
    if status.conditions.is_some() {
        value["conditions"] = conditions.into();
    }
    if status.deletion.is_some() {
        value["deletion"]["objects"] = objects.into();
    }
    value
}

/// Makes a pass, and returns what it did and the world after it.
pub(super) fn pass(mut world: World, now: Timestamp, cluster: &Cluster) -> (Pass, World) {
    // A client needs one, although nothing is asked.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let _entered = runtime.enter();
    let kind = cleaner_kind();
    let mut steps = Vec::new();
    for _ in 0..CleanerKind::TRAITS.steps {
        let plan = plan(&world, now);
        let Some(action) = plan.action else {
            assert_ne!(plan.then, Then::GoOn, "it waits for nothing");
            let then = Some(plan.then);
            return (Pass { steps, then }, world);
        };
        check(&world, &action);
        let shown = shown(&world, &action);
        let outcome = outcome(&mut world, &action, cluster);
        steps.push(Step {
            action,
            shown,
            notices: plan.notices,
        });
        if kind.learn(&mut world, outcome) != Remains::Object {
            return (Pass { steps, then: None }, world);
        }
    }
    unreachable!("the pass has no end: {steps:#?}")
}

/// What holds whatever happens.
fn check(world: &World, action: &Action) {
    let metadata = &world.cleaner.metadata;
    let is_dry = world.spec().is_none_or(|spec| spec.dry_run);
    match action {
        Action::DeleteTargets(places) => {
            assert!(
                metadata.deletion_timestamp.is_some(),
                "the Cleaner is deleted first"
            );
            assert!(world.has_finalizer());
            let planned = world.deletion().unwrap().objects.len();
            assert!(places.iter().all(|place| *place < planned));
        }
        Action::Commit(_) => {
            assert!(world.has_finalizer(), "the finalizer is first");
            assert!(!world.is_deleted() && !is_dry && world.deletion().is_none());
        }
        Action::Deliver(attempt) => {
            assert!(world.is_deleted() && world.has_finalizer());
            let attempts = world.deletion().unwrap().event.as_ref().unwrap().attempts;
            assert_eq!(attempt.number, attempts + 1, "each failure is noted first");
            let is_running = |it: &Attempt| it.state == AttemptState::Running;
            let last = world.recalled.attempt.as_ref();
            assert!(!last.is_some_and(is_running));
        }
        Action::DeleteCleaner => assert!(world.deletion().is_some() && world.has_finalizer()),
        Action::WriteStatus(status) => {
            // One of which nothing was deleted may be taken back.
            let is_kept = world.has_finalizer() || world.is_deleted();
            let is_written = world.deletion().is_some() && is_kept;
            assert_eq!(status.deletion.is_some(), is_written);
        }
        _ => {}
    }
}

fn outcome(world: &mut World, action: &Action, cluster: &Cluster) -> ActionOutcome {
    match action {
        Action::Compile(_) => ActionOutcome::Compiled(cluster.compiled.clone()),
        Action::Unwatch => ActionOutcome::Unwatched,
        Action::Look(at) => ActionOutcome::Seen(Box::new(Sight {
            at: *at,
            events: world.recalled.events,
            targets: cluster.targets.clone(),
            problem: cluster.problem.clone(),
            unwatched: cluster.unwatched.clone(),
        })),
        Action::Evaluate(_) => {
            ActionOutcome::Evaluated(cluster.evaluation.clone(), Variables::default().into())
        }
        Action::Search(_) => ActionOutcome::Found(cluster.search),
        Action::Doom => match &cluster.doomed {
            Ok(doomed) => ActionOutcome::Doomed(doomed.clone()),
            Err(problem) => ActionOutcome::Unusable(problem.clone()),
        },
        Action::Remember(looked) => ActionOutcome::Remembered(looked.clone()),
        Action::DeleteTargets(places) => {
            let fate = |place: &usize| cluster.fates.get(*place).cloned().unwrap_or(Fate::Accepted);
            let fates = places.iter().map(|place| (*place, fate(place)));
            ActionOutcome::Deleted(fates.collect())
        }
        Action::Confirm(places) => {
            let gone = places.iter().filter(|place| cluster.gone.contains(place));
            ActionOutcome::Confirmed(gone.copied().collect())
        }
        Action::Deliver(attempt) => {
            let mut attempt = attempt.clone();
            if cluster.is_delivery_full {
                let until = "2026-01-01T02:00:30Z".parse().unwrap();
                attempt.state = AttemptState::Postponed(Timestamp::MIN..until);
            }
            ActionOutcome::Delivering(attempt)
        }
        // There is no such release, unless it cannot be said.
        Action::Helm(HelmAction::GiveUp(progress)) => {
            ActionOutcome::Helm(HelmOutcome::GaveUp(progress.clone()))
        }
        Action::Helm(_) => ActionOutcome::Helm(match &cluster.helm_trouble {
            Some(trouble) => HelmOutcome::Trouble(trouble.clone()),
            None => HelmOutcome::Listed(Vec::new()),
        }),
        Action::SetMetadata(_)
        | Action::WriteStatus(_)
        | Action::Commit(_)
        | Action::DeleteCleaner => written(world, action),
    }
}

/// The Cleaner after a write.
fn written(world: &World, action: &Action) -> ActionOutcome {
    let mut cleaner = world.cleaner.clone();
    let metadata = &mut cleaner.metadata;
    let version: u64 = metadata
        .resource_version
        .as_deref()
        .unwrap()
        .parse()
        .unwrap();
    metadata.resource_version = Some((version + 1).to_string());
    match action {
        Action::SetMetadata(patch) => metadata.finalizers.clone_from(&patch.finalizers),
        Action::WriteStatus(status) | Action::Commit(status) => {
            cleaner.status = Some((**status).clone());
        }
        _ => metadata.deletion_timestamp = Some(Time("2026-01-01T02:00:00Z".parse().unwrap())),
    }
    ActionOutcome::Cleaner(Some(Box::new(cleaner)))
}

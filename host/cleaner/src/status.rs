//! What the status of a Cleaner says, and what one that deletes nothing yet waits for. Pure.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime};
use podloom_api::names::cleaner::{condition, reason};
use podloom_api::{
    CleanerStatus, ConditionResult, ConditionVerdict, DeletionPhase, DeletionProgress,
};
use podloom_cel::{Evaluation, Failure, Outcome};
use podloom_engine::conditions::{ConditionStatus, NewCondition, conditions};

use crate::frozen::Refusal;
use crate::read::{Problem, SeenTarget, Sight};
use crate::snapshot;
use crate::world::World;

/// How many targets a status lists.
const LISTED_MAX: usize = 500;
/// All conditions that are ours.
const OURS: [&str; 4] = [
    condition::READY,
    condition::CONDITIONS_MET,
    condition::TARGETS_WATCHED,
    condition::DELETING,
];

/// Returns the status of a Cleaner that deletes nothing yet; `next` is when it is looked at again.
pub(super) fn waiting(
    world: &World,
    standing: &Standing<'_>,
    next: Option<Timestamp>,
    now: Timestamp,
) -> CleanerStatus {
    let sight = world.learned.sight.as_deref();
    let mut new = vec![standing.ready(), standing.conditions_met()];
    new.extend(sight.and_then(targets_watched));
    CleanerStatus {
        conditions: Some(with(world, new, now)),
        next_scheduled_evaluation: next.map(|next| next.to_string()),
        condition_results: results(world),
        ..of_targets(sight)
    }
}

/// Returns the status with which a deletion begins. Once it is written, there is no way back.
pub(super) fn committed(
    world: &World,
    sight: &Sight,
    progress: DeletionProgress,
    now: Timestamp,
) -> CleanerStatus {
    let doomed = world.learned.doomed.as_deref().unwrap_or_default();
    let targets = in_order(world, &sight.targets, doomed);
    CleanerStatus {
        conditions: Some(with(world, terminating(&progress, None), now)),
        condition_results: results(world),
        evaluation_time: Some(MicroTime(micros(sight.at))),
        targets: Some(snapshot::of(targets)),
        deletion: Some(progress),
        ..of_targets(Some(sight))
    }
}

/// Returns the status of a Cleaner that deletes; `late` is the sentence about a deadline that has passed.
pub(super) fn deleting(
    world: &World,
    progress: DeletionProgress,
    late: Option<&str>,
    now: Timestamp,
) -> CleanerStatus {
    let before = world.status().cloned().unwrap_or_default();
    CleanerStatus {
        conditions: Some(with(world, terminating(&progress, late), now)),
        next_scheduled_evaluation: None,
        deletion: Some(progress),
        ..before
    }
}

/// Returns the status without a plan of which nothing was deleted.
pub(super) fn forgotten(world: &World) -> CleanerStatus {
    CleanerStatus {
        evaluation_time: None,
        targets: None,
        deletion: None,
        ..world.status().cloned().unwrap_or_default()
    }
}

/// Returns the targets that were seen and those that are only deleted, in the order of the spec.
pub(super) fn in_order<'a>(
    world: &World,
    seen: &'a [SeenTarget],
    doomed: &'a [SeenTarget],
) -> Vec<&'a SeenTarget> {
    let targets = world.checked.as_ref().map(|it| it.targets.as_slice());
    let find = |name: &str| {
        // What was only named was read later, if it is deleted.
        let doomed = doomed.iter().find(|it| it.name == name);
        doomed.or_else(|| seen.iter().find(|it| it.name == name))
    };
    let targets = targets.unwrap_or_default().iter();
    targets.filter_map(|target| find(&target.name)).collect()
}

/// A time as a status stores it.
pub(super) fn micros(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time)
}

/// Conditions of ours that no longer hold are left out, those of other writers stay.
fn with(world: &World, new: Vec<NewCondition>, now: Timestamp) -> Vec<Condition> {
    let seen = world.status().and_then(|status| status.conditions.clone());
    let is_kept = |old: &Condition| {
        !OURS.contains(&old.type_.as_str()) || new.iter().any(|new| new.type_ == old.type_)
    };
    let seen = seen.map(|seen| seen.into_iter().filter(is_kept).collect());
    let generation = world.cleaner.metadata.generation;
    conditions(seen.as_ref(), new, generation, now)
}

/// What is said of the targets.
fn of_targets(sight: Option<&Sight>) -> CleanerStatus {
    let Some(sight) = sight else {
        return CleanerStatus::default();
    };
    let names: BTreeSet<String> = sight.targets.iter().flat_map(identities).collect();
    CleanerStatus {
        resolved_target_count: Some(i64::try_from(names.len()).unwrap_or(i64::MAX)),
        resolved_targets: Some(names.into_iter().take(LISTED_MAX).collect()),
        ..CleanerStatus::default()
    }
}

/// The objects of a target, as `name.plural.group/version`.
fn identities(target: &SeenTarget) -> Vec<String> {
    let resource = &target.kind.resource;
    let kind = match resource.group.as_str() {
        "" => format!("{}/{}", resource.plural, resource.version),
        group => format!("{}.{group}/{}", resource.plural, resource.version),
    };
    let names = target.names().into_iter();
    names.map(|name| format!("{name}.{kind}")).collect()
}

/// Returns what the conditions came to; none if they have no result.
pub(super) fn results(world: &World) -> Option<Vec<ConditionResult>> {
    if let Some(evaluation) = &world.learned.evaluation {
        return Some(of_evaluation(evaluation));
    }
    match &world.recalled.compiled {
        Some(Err(failures)) => Some(failures.iter().map(of_failure).collect()),
        _ => None,
    }
}

fn of_evaluation(evaluation: &Evaluation) -> Vec<ConditionResult> {
    let result = |(index, outcome): (usize, &Outcome)| {
        let plain = |result| ConditionResult {
            index: i32::try_from(index).unwrap_or(i32::MAX),
            result,
            message: evaluation.remarks.get(&index).cloned(),
        };
        match outcome {
            Outcome::True => plain(ConditionVerdict::True),
            Outcome::False => plain(ConditionVerdict::False),
            Outcome::Error(failure) => of_failure(failure),
        }
    };
    evaluation.outcomes.iter().enumerate().map(result).collect()
}

fn of_failure(failure: &Failure) -> ConditionResult {
    ConditionResult {
        index: i32::try_from(failure.index).unwrap_or(i32::MAX),
        result: ConditionVerdict::Error,
        message: Some(failure.message.clone()),
    }
}

/// The condition `TargetsWatched`; none if conditions see no target.
fn targets_watched(sight: &Sight) -> Option<NewCondition> {
    let is_any_seen = sight.targets.iter().any(|target| target.is_evaluated);
    let (status, reason, message) = if !sight.unwatched.is_empty() {
        let kinds = sight.unwatched.join(", ");
        let message = format!(
            "the operator may not list and watch {kinds}: grant it both, or changes are noticed only at the next scheduled evaluation"
        );
        (ConditionStatus::False, reason::WATCH_FORBIDDEN, message)
    } else if is_any_seen || sight.problem.is_some() {
        let message = "changes of targets are noticed at once".to_owned();
        (ConditionStatus::True, reason::WATCHING, message)
    } else {
        return None;
    };
    let type_ = condition::TARGETS_WATCHED;
    Some(NewCondition::new(type_, status, reason, message))
}

/// The conditions while objects are deleted.
fn terminating(progress: &DeletionProgress, late: Option<&str>) -> Vec<NewCondition> {
    let (phase, message) = match progress.phase {
        DeletionPhase::Targets => (reason::DELETING_TARGETS, "the targets are being deleted"),
        DeletionPhase::Helm => (
            reason::UNINSTALLING_RELEASE,
            "the Helm release is being uninstalled",
        ),
        DeletionPhase::Event => (
            reason::DELIVERING_EVENT,
            "the CloudEvent is being delivered",
        ),
        DeletionPhase::Done => (reason::DELETING_TARGETS, "all is done"),
    };
    let (status, reason, message) = match late {
        Some(late) => (ConditionStatus::False, reason::DEADLINE_EXCEEDED, late),
        None => (ConditionStatus::True, phase, message),
    };
    vec![
        NewCondition::new(
            condition::READY,
            ConditionStatus::True,
            reason::TERMINATING,
            "all conditions were true: the targets are deleted, and this object after them",
        ),
        all_true(),
        NewCondition::new(condition::DELETING, status, reason, message),
    ]
}

/// What a Cleaner that deletes nothing yet waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Standing<'a> {
    /// For another spec, since this one cannot be used.
    Invalid(&'a str),
    /// For other conditions, since these do not compile.
    Uncompiled(&'a [Failure]),
    /// For its time.
    NotExpired(Timestamp),
    /// For its targets.
    Unresolved(&'a Problem),
    /// For targets or a time with which this condition can be evaluated.
    Failed(&'a Failure),
    /// For targets or a time with which this condition is true.
    Unmet(usize),
    /// For a user, since something keeps it from deleting.
    Refused(&'a Refusal),
    /// For a user, since it only shows what it would delete: this.
    DryRun(&'a str),
}

impl Standing<'_> {
    /// Returns the condition Ready.
    pub(super) fn ready(&self) -> NewCondition {
        use ConditionStatus::{False, True, Unknown};
        let (status, reason, message) = match self {
            Self::Invalid(error) => (False, reason::INVALID_SPEC, (*error).to_owned()),
            Self::Uncompiled(failures) => {
                let messages: Vec<&str> =
                    failures.iter().map(|failure| &*failure.message).collect();
                let message = messages.join("; ");
                (False, reason::CONDITION_COMPILE_ERROR, message)
            }
            Self::NotExpired(expiry) => {
                let message = format!("nothing is deleted before {expiry}");
                (Unknown, reason::NOT_EXPIRED, message)
            }
            Self::Unresolved(problem) => (False, reason::TARGET_RESOLVE_ERROR, problem.to_string()),
            Self::Failed(failure) => (False, failure.reason.as_str(), failure.message.clone()),
            Self::Unmet(index) => {
                let message = format!("conditions[{index}] is false");
                (True, reason::WAITING_FOR_CONDITIONS, message)
            }
            Self::Refused(refusal) => (False, refusal.reason, refusal.message.clone()),
            Self::DryRun(message) => (True, reason::DRY_RUN, (*message).to_owned()),
        };
        NewCondition::new(condition::READY, status, reason, message)
    }

    /// Returns the condition `ConditionsMet`.
    pub(super) fn conditions_met(&self) -> NewCondition {
        let (status, reason, message) = match self {
            Self::Unmet(index) => (
                ConditionStatus::False,
                reason::NOT_ALL_TRUE,
                format!("conditions[{index}] is false"),
            ),
            Self::Refused(_) | Self::DryRun(_) => return all_true(),
            _ => (
                ConditionStatus::Unknown,
                reason::NOT_EVALUATED,
                "the conditions have no result".to_owned(),
            ),
        };
        NewCondition::new(condition::CONDITIONS_MET, status, reason, message)
    }
}

/// Returns the condition `ConditionsMet` of a Cleaner whose conditions are all true.
pub(super) fn all_true() -> NewCondition {
    NewCondition::new(
        condition::CONDITIONS_MET,
        ConditionStatus::True,
        reason::ALL_TRUE,
        "all conditions are true",
    )
}

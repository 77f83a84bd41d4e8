//! The Events about a Cleaner.

use std::collections::BTreeMap;
use std::time::Duration;

use podloom_api::names::cleaner::{condition, event, reason};
use podloom_api::{
    CleanerSpec, DeletionPhase, DeletionProgress, DeliveryProgress, HelmProgress, ObjectOutcome,
    PlannedObject, duration,
};
use podloom_engine::events::{Notice, appended};

use crate::checked::Checked;
use crate::helm::Ending;
use crate::status::Standing;
use crate::world::World;

/// If there are more objects, there is one Event about all of them.
const SINGLE_MAX: usize = 50;

/// Returns the Event about a Cleaner that deletes nothing although all conditions are true, when that is new.
pub(super) fn refused(world: &World, standing: &Standing<'_>) -> Option<Notice> {
    let Standing::Refused(refusal) = standing else {
        return None;
    };
    let before = reason_of(world, condition::READY);
    (before != Some(refusal.reason))
        .then(|| Notice::warning(event::TRIGGER_REFUSED, refusal.message.clone()))
}

/// Returns the Event about a deletion that begins.
pub(super) fn triggered(world: &World, objects: &[PlannedObject], checked: &Checked) -> Notice {
    let helm = match &checked.helm {
        Some(release) => format!(", then the Helm release {release} is uninstalled"),
        None => String::new(),
    };
    let deleted = match objects {
        [] => "this Cleaner is deleted".to_owned(),
        objects => format!("{} and this Cleaner are deleted", counted(objects)),
    };
    let note = format!("all conditions are true: {deleted}{helm}");
    let evaluation = world.learned.evaluation.iter();
    let remarks = evaluation.flat_map(|it| it.remarks.values().cloned());
    let note = appended(note, &remarks.collect::<Vec<_>>());
    Notice::normal(event::CONDITIONS_MET, note)
}

/// Returns the Event about a plan in the status that is not the operator's any more, or never was.
pub(super) fn forgotten() -> Notice {
    let note = "the status lists objects to delete, but this Cleaner has not the finalizer that the operator sets before: somebody has \
                removed it, or has written the status. Nothing of the list is deleted, and the conditions are evaluated again";
    Notice::warning(event::TRIGGER_REFUSED, note)
}

/// Returns the Events about what became of objects since the status was written.
pub(super) fn deleted(before: &DeletionProgress, after: &DeletionProgress) -> Vec<Notice> {
    let pairs = before.objects.iter().zip(&after.objects);
    let changed = pairs.filter(|(before, after)| {
        before.outcome != after.outcome || before.message != after.message
    });
    let changed: Vec<&PlannedObject> = changed.map(|(_, after)| after).collect();
    let failed = changed.iter().filter(|it| it.message.is_some());
    let failed: Vec<String> = failed.map(|it| not_deleted(it)).collect();
    let mut notices = Vec::new();
    if after.objects.len() <= SINGLE_MAX {
        let accepted = changed
            .iter()
            .filter(|it| it.outcome == Some(ObjectOutcome::Accepted));
        notices.extend(accepted.map(|it| {
            let note = format!("deleted {} {} of target {}", it.kind, it.name, it.target);
            Notice::normal(event::TARGET_DELETED, note)
        }));
    } else if before.phase == DeletionPhase::Targets && before.phase != after.phase {
        notices.push(Notice::normal(
            event::TARGET_DELETED,
            summary(&after.objects),
        ));
    }
    // One about all: warnings of the same reason count as repetitions of the first.
    if let [first, others @ ..] = failed.as_slice() {
        let note = appended(first.clone(), others);
        notices.push(Notice::warning(event::DELETE_TARGET_FAILED, note));
    }
    notices
}

/// Returns the Event about a Helm release with which nothing is left to do.
pub(super) fn uninstalled(progress: &HelmProgress, ending: Ending) -> Notice {
    let release = &progress.release;
    let left = |what: &str, objects: Option<&Vec<String>>| match objects {
        Some(objects) => format!("; {what}: {}", objects.join(", ")),
        None => String::new(),
    };
    match ending {
        Ending::Uninstalled => {
            let kept = left("kept as the chart says", progress.kept.as_ref());
            let skipped = left("left alone", progress.skipped.as_ref());
            let note = format!("uninstalled the Helm release {release}{kept}{skipped}");
            Notice::normal(event::HELM_RELEASE_UNINSTALLED, note)
        }
        Ending::Absent => {
            let note = format!("there is no Helm release {release}");
            Notice::normal(event::HELM_RELEASE_UNINSTALLED, note)
        }
        Ending::LeftAlone => {
            let note = format!(
                "left the Helm release {release} alone: spec.helm does not say that it is deleted, spec.dryRun is true, or the operator \
                 deletes nothing in this namespace"
            );
            Notice::warning(event::HELM_UNINSTALL_FAILED, note)
        }
    }
}

/// Returns the Event about a Helm release of which something could not be uninstalled, when that is new.
pub(super) fn not_uninstalled(
    before: &DeletionProgress,
    after: &DeletionProgress,
) -> Option<Notice> {
    let message = |progress: &DeletionProgress| progress.helm.as_ref()?.message.clone();
    let failure = message(after).filter(|new| message(before).as_ref() != Some(new))?;
    Some(Notice::warning(event::HELM_UNINSTALL_FAILED, failure))
}

/// Returns the Event about a phase that is late, when that is new. Its reason is its own, since it would count as a repetition else.
pub(super) fn late(world: &World, message: &str) -> Option<Notice> {
    let before = reason_of(world, condition::DELETING);
    (before != Some(reason::DEADLINE_EXCEEDED))
        .then(|| Notice::warning(reason::DEADLINE_EXCEEDED, message))
}

/// Returns the Event about objects that a Cleaner does not wait for any longer.
pub(super) fn not_gone(progress: &DeletionProgress, timeout: Duration) -> Notice {
    let objects = progress.objects.iter();
    let mut left = objects.filter(|it| it.outcome == Some(ObjectOutcome::Accepted));
    let first = left.next().map(|it| format!("{} {}", it.kind, it.name));
    let note = format!(
        "{} of {} objects are still there after {}, the first is {}: finalizers keep them, which something else has to remove. The Cleaner \
         does not wait for them any longer",
        left.count() + usize::from(first.is_some()),
        progress.objects.len(),
        duration::print(timeout),
        first.unwrap_or_default()
    );
    Notice::warning(reason::DEADLINE_EXCEEDED, note)
}

/// Returns the Event about a CloudEvent that was delivered.
pub(super) fn delivered() -> Notice {
    Notice::normal(event::EVENT_DELIVERED, "the sink accepted the CloudEvent")
}

/// Returns the Event about a CloudEvent that is not delivered, and not tried any more.
pub(super) fn given_up(spec: Option<&CleanerSpec>, delivery: &DeliveryProgress) -> Notice {
    let is_removed = spec.is_some_and(|spec| spec.cloud_event_sink.is_none());
    let (reason, why) = match (is_removed, &delivery.last_error) {
        (true, _) => (
            event::EVENT_DELIVERY_FAILED,
            "the spec has no cloudEventSink any more",
        ),
        // Like that of a phase that is late, it would else count as a repetition.
        (false, Some(error)) => (reason::DEADLINE_EXCEEDED, error.as_str()),
        (false, None) => (reason::DEADLINE_EXCEEDED, "its deadline has passed"),
    };
    let note = format!("the CloudEvent was not delivered, and is not sent any more: {why}");
    Notice::warning(reason, note)
}

/// Returns the Event about an attempt to deliver the CloudEvent that failed on something else than the last one.
pub(super) fn undelivered(before: &DeliveryProgress, after: &DeliveryProgress) -> Option<Notice> {
    let error = after.last_error.as_ref();
    let error = error.filter(|_| after.last_error != before.last_error)?;
    let note = format!("the CloudEvent could not be delivered, and is sent again: {error}");
    Some(Notice::warning(event::EVENT_DELIVERY_FAILED, note))
}

fn not_deleted(object: &PlannedObject) -> String {
    let message = object.message.as_deref().unwrap_or_default();
    match object.outcome {
        Some(ObjectOutcome::Skipped) => {
            format!("left {} {} alone: {message}", object.kind, object.name)
        }
        _ => format!("cannot delete {} {}: {message}", object.kind, object.name),
    }
}

/// What became of many objects.
fn summary(objects: &[PlannedObject]) -> String {
    let count = |outcome| {
        let of_it = objects.iter().filter(|it| it.outcome == Some(outcome));
        of_it.count()
    };
    format!(
        "deleted {} of {}; {} were gone, {} replaced by others, {} left alone",
        count(ObjectOutcome::Accepted),
        counted(objects),
        count(ObjectOutcome::Gone),
        count(ObjectOutcome::Replaced),
        count(ObjectOutcome::Skipped)
    )
}

/// The reason of a condition in the status.
fn reason_of<'a>(world: &'a World, type_: &str) -> Option<&'a str> {
    let conditions = world.status()?.conditions.as_ref()?;
    let found = conditions.iter().find(|it| it.type_ == type_);
    found.map(|it| it.reason.as_str())
}

/// The number of objects, and of each kind.
pub(super) fn counted(objects: &[PlannedObject]) -> String {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for object in objects {
        *kinds.entry(&object.kind).or_default() += 1;
    }
    let kinds: Vec<String> = kinds
        .iter()
        .map(|(kind, count)| format!("{kind}: {count}"))
        .collect();
    match objects.len() {
        0 => "no object".to_owned(),
        1 => format!("1 object ({})", kinds.join(", ")),
        count => format!("{count} objects ({})", kinds.join(", ")),
    }
}

//! The plan of a deletion: which objects, decided once. Nothing else is ever deleted.

use std::collections::BTreeSet;

use podloom_api::{DeletionProgress, ObjectOutcome, PlannedObject};
use podloom_engine::kind::ResourceScope;
use podloom_engine::shown::at_most;
use serde_json::Value;

use super::action::Fate;
use super::served::ServedKind;
use super::sight::{Problem, SeenTarget, metadata};

/// How much is kept of why an object cannot be deleted, in bytes.
const MESSAGE_MAX: usize = 256;

/// How much is kept of why objects cannot be deleted, of all together, in bytes: a status holds only so much.
const MESSAGES_MAX: usize = 64 * 1024;
/// What is said of the others.
const AS_OTHERS: &str = "as the first ones";

/// An object that would be deleted, and the object itself.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Doomed<'a> {
    /// What is planned.
    pub(super) planned: PlannedObject,
    /// The object as it was read.
    pub(super) object: &'a Value,
}

/// Returns the objects of the targets that are deleted: targets in the order of the spec, objects in the order of their list, each object
/// once. The Cleaner with this UID is never one of them.
///
/// # Errors
///
/// If an object has no UID: it could not be distinguished from another one with its name.
pub(super) fn plan<'a>(
    targets: impl IntoIterator<Item = &'a SeenTarget>,
    own_uid: &str,
) -> Result<Vec<Doomed<'a>>, Problem> {
    let mut doomed = Vec::new();
    let mut uids = BTreeSet::from([own_uid]);
    for target in targets.into_iter().filter(|target| target.is_deleted) {
        for object in target.objects() {
            let uid = metadata(object, "uid");
            if uid.is_empty() {
                let text = "an object without a UID cannot be deleted safely; remove this target";
                return Err(Problem::lasting(&target.name, &text));
            }
            if uids.insert(uid) {
                let planned = planned(&target.name, &target.kind, object);
                doomed.push(Doomed { planned, object });
            }
        }
    }
    Ok(doomed)
}

fn planned(target: &str, kind: &ServedKind, object: &Value) -> PlannedObject {
    let resource = &kind.resource;
    PlannedObject {
        target: target.to_owned(),
        group: resource.group.clone(),
        version: resource.version.clone(),
        kind: resource.kind.clone(),
        resource: resource.plural.clone(),
        namespace: match kind.scope {
            ResourceScope::Namespaced => metadata(object, "namespace").to_owned(),
            ResourceScope::Cluster => String::new(),
        },
        name: metadata(object, "name").to_owned(),
        uid: metadata(object, "uid").to_owned(),
        outcome: None,
        message: None,
    }
}

/// Puts what became of objects, by their places, into the plan.
pub(super) fn fold(progress: &mut DeletionProgress, fates: Vec<(usize, Fate)>) {
    for (place, fate) in fates {
        let Some(object) = progress.objects.get_mut(place) else {
            continue;
        };
        let (outcome, message) = match fate {
            Fate::Accepted => (Some(ObjectOutcome::Accepted), None),
            Fate::Gone => (Some(ObjectOutcome::Gone), None),
            Fate::Replaced => (Some(ObjectOutcome::Replaced), None),
            Fate::Skipped(message) => (Some(ObjectOutcome::Skipped), Some(message)),
            Fate::Failed(message) => (None, Some(message)),
        };
        object.outcome = outcome;
        object.message = message.map(|message| at_most(MESSAGE_MAX, message));
    }
    let mut room = MESSAGES_MAX;
    for message in progress
        .objects
        .iter_mut()
        .filter_map(|it| it.message.as_mut())
    {
        if message.len() > room {
            *message = AS_OTHERS.to_owned();
        }
        room = room.saturating_sub(message.len());
    }
}

#[cfg(test)]
mod tests;

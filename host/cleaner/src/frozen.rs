//! The plan of a deletion: which objects, decided once, and what forbids to delete them. Nothing else is ever deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube::core::SelectorExt;
use podloom_api::names::cleaner::{annotation, reason};
use podloom_api::{
    CleanerDeletion, CleanerSpec, CleanerStatus, CleanerTarget, DeletionProgress, ObjectOutcome,
    PlannedObject, PropagationPolicy, duration,
};
use podloom_engine::kind::ResourceScope;
use podloom_engine::shown::at_most;
use serde::Deserialize;
use serde_json::Value;

use crate::checked;
use crate::checked::{KindReference, Selection};
use crate::discovery::ServedKind;
use crate::read::{Problem, SeenTarget, metadata};
use crate::snapshot::stored_bytes;
use crate::world::{Fate, World};

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

/// How many bytes a Cleaner may have when its deletion begins. The rest of the 1.5 MiB that etcd takes is for what comes later: messages
/// about objects, what is known of a Helm release, and which fields are whose.
const STORED_MAX: usize = 1_300_000;

/// Why nothing is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The reason of the condition Ready.
    pub(super) reason: &'static str,
    /// What to change.
    pub(super) message: String,
}

/// Returns why none of the objects is deleted; none if nothing forbids it. In namespaces that are excluded, the operator deletes nothing.
pub(super) fn refusal(
    doomed: &[Doomed<'_>],
    max_objects: usize,
    excluded: &BTreeSet<String>,
) -> Option<Refusal> {
    too_many(doomed.len(), max_objects)
        .or_else(|| protected(doomed))
        .or_else(|| within_excluded(doomed, excluded))
}

fn too_many(count: usize, most: usize) -> Option<Refusal> {
    (count > most).then(|| Refusal {
        reason: reason::BLAST_RADIUS_EXCEEDED,
        message: format!(
            "{count} objects would be deleted, more than spec.deletion.maxObjects allows: {most}. Raise it, or select fewer"
        ),
    })
}

/// Returns why nothing is deleted if the list of all objects does not fit into a status: this is the one with which the deletion would
/// begin.
pub(super) fn too_large(world: &World, committed: &CleanerStatus) -> Option<Refusal> {
    let metadata = &world.cleaner.metadata;
    let size = stored_bytes(metadata)
        .saturating_add(stored_bytes(&world.spec()))
        .saturating_add(stored_bytes(committed));
    let objects = committed.deletion.as_ref().map_or(0, |it| it.objects.len());
    (size > STORED_MAX).then(|| Refusal {
        reason: reason::BLAST_RADIUS_EXCEEDED,
        message: format!(
            "{objects} objects would be deleted, and a list of them does not fit into the status. Select fewer"
        ),
    })
}

/// To delete a namespace is to delete all that is in it.
fn within_excluded(doomed: &[Doomed<'_>], excluded: &BTreeSet<String>) -> Option<Refusal> {
    let planned = doomed.iter().map(|it| &it.planned);
    let first = planned.into_iter().find(|it| is_excluded(it, excluded))?;
    Some(Refusal {
        reason: reason::TARGET_PROTECTED,
        message: format!(
            "target {} is the namespace {}, in which the operator deletes nothing, by its flag --cleaner-excluded-namespaces; remove it \
             from the targets",
            first.target, first.name
        ),
    })
}

/// Returns whether an object is a namespace in which the operator deletes nothing.
pub(super) fn is_excluded(object: &PlannedObject, excluded: &BTreeSet<String>) -> bool {
    object.group.is_empty() && object.kind == "Namespace" && excluded.contains(&object.name)
}

fn protected(doomed: &[Doomed<'_>]) -> Option<Refusal> {
    let is_protected = |it: &&Doomed<'_>| {
        it.object["metadata"]["annotations"][annotation::PROTECT].as_str() == Some("true")
    };
    let first = doomed.iter().find(is_protected)?;
    let more = doomed.iter().filter(is_protected).count() - 1;
    let others = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let planned = &first.planned;
    Some(Refusal {
        reason: reason::TARGET_PROTECTED,
        message: format!(
            "the {} {} of target {} is annotated {}: \"true\"{others}; remove the annotation to let it be deleted",
            planned.kind,
            planned.name,
            planned.target,
            annotation::PROTECT
        ),
    })
}

/// How long a phase may take if the spec does not say it.
const TIMEOUT: Duration = Duration::from_mins(10);

/// What the live spec says about a deletion that has begun. The spec may be edited into something that cannot be used; what can be read
/// of it counts.
///
/// Whoever may write the status could have written a plan there. So each object of a plan is compared with the spec again.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rules {
    /// The targets that are deleted.
    targets: Vec<(KindReference, Selection)>,
    /// How many objects may be deleted.
    max_objects: usize,
    /// Whether nothing is deleted.
    is_dry_run: bool,
    /// When the objects that a target owns are deleted.
    pub(super) propagation: PropagationPolicy,
    /// How long a phase may take before it is late.
    pub(super) timeout: Duration,
    /// Whether the phase ends only when all objects are gone.
    pub(super) waits_for_gone: bool,
}

impl Rules {
    /// Returns those of a spec; without one, nothing more is deleted.
    pub(super) fn of(spec: Option<&CleanerSpec>) -> Self {
        let deletion = spec.map_or_else(CleanerDeletion::default, |spec| spec.deletion.clone());
        let targets = spec.map(|spec| spec.targets.as_slice()).unwrap_or_default();
        let read = |target: &CleanerTarget| checked::read_reference(&target.reference, true).ok();
        Self {
            targets: targets
                .iter()
                .filter(|it| it.delete)
                .filter_map(read)
                .collect(),
            max_objects: usize::try_from(deletion.max_objects).unwrap_or_default(),
            is_dry_run: spec.is_some_and(|spec| spec.dry_run),
            propagation: deletion.propagation_policy,
            timeout: duration::parse(&deletion.timeout).unwrap_or(TIMEOUT),
            waits_for_gone: deletion.wait_for_gone,
        }
    }

    /// Returns why nothing more of a plan must be deleted.
    pub(super) fn objection_to_all(&self, progress: &DeletionProgress) -> Option<String> {
        if self.is_dry_run {
            return Some("spec.dryRun is true".to_owned());
        }
        let (count, most) = (progress.objects.len(), self.max_objects);
        (count > most).then(|| {
            format!(
                "the status lists {count} objects, more than spec.deletion.maxObjects allows: {most}"
            )
        })
    }

    /// Returns why an object of the plan must not be deleted, as far as that can be said without the object.
    pub(super) fn objection(
        &self,
        object: &PlannedObject,
        namespace: &str,
    ) -> Option<&'static str> {
        // A cluster-scoped object has none. Whether its kind is cluster-scoped, and may be deleted, is found when it is.
        if !object.namespace.is_empty() && object.namespace != namespace {
            return Some("it is in another namespace");
        }
        let is_named = self.of_kind(object).next().is_some();
        (!is_named).then_some("no target of the spec that is deleted has its kind")
    }

    /// Returns why an object of the plan must not be deleted, as it is now.
    pub(super) fn objection_to_found(
        &self,
        object: &PlannedObject,
        found: &Value,
    ) -> Option<String> {
        let metadata_of = |field: &str| {
            BTreeMap::<String, String>::deserialize(&found["metadata"][field]).unwrap_or_default()
        };
        let labels = metadata_of("labels");
        let selects = |selection: &Selection| match selection {
            Selection::One(name) => name == metadata(found, "name"),
            Selection::Labelled(Ok(selector)) => selector.matches(&labels),
            Selection::Labelled(Err(_)) => false,
        };
        if !self.of_kind(object).any(selects) {
            return Some("no target of the spec that is deleted selects it".to_owned());
        }
        let protect = annotation::PROTECT;
        let is_protected = metadata_of("annotations")
            .get(protect)
            .is_some_and(|it| it == "true");
        is_protected.then(|| format!("it is annotated {protect}: \"true\""))
    }

    fn of_kind(&self, object: &PlannedObject) -> impl Iterator<Item = &Selection> {
        let is_its = |(kind, _): &&(KindReference, Selection)| {
            kind.group == object.group && kind.kind.eq_ignore_ascii_case(&object.kind)
        };
        self.targets
            .iter()
            .filter(is_its)
            .map(|(_, selection)| selection)
    }
}

#[cfg(test)]
mod tests;

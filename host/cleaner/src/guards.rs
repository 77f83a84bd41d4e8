//! What keeps a Cleaner from deleting although all conditions are true.

use std::collections::BTreeSet;

use podloom_api::names::cleaner::{annotation, reason};
use podloom_api::{CleanerStatus, PlannedObject};

use super::checked::CheckedDeletion;
use super::frozen::Doomed;
use super::size::stored_bytes;
use super::world::World;

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
    deletion: &CheckedDeletion,
    excluded: &BTreeSet<String>,
) -> Option<Refusal> {
    too_many(doomed.len(), deletion.max_objects)
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

#[cfg(test)]
mod tests;

//! What the live spec says about a deletion that has begun. The spec may be edited into something that cannot be used; what can be read
//! of it counts.
//!
//! Whoever may write the status could have written a plan there. So each object of a plan is compared with the spec again.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::core::SelectorExt;
use podloom_api::names::cleaner::annotation;
use podloom_api::{
    CleanerDeletion, CleanerSpec, CleanerTarget, DeletionProgress, PlannedObject,
    PropagationPolicy, duration,
};
use serde::Deserialize;
use serde_json::Value;

use super::checked::{self, KindReference, Selection};
use super::sight::metadata;

/// How long a phase may take if the spec does not say it.
const TIMEOUT: Duration = Duration::from_mins(10);

/// What the live spec says about the deletion.
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

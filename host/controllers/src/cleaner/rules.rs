//! What the live spec says about a deletion that has begun. The spec may be edited into something that cannot be used; what can be read
//! of it counts.

use std::time::Duration;

use podloom_api::duration;
use podloom_api::{
    CleanerDeletion, CleanerSpec, PlannedObject, PropagationPolicy, TargetReference,
};

/// How long a phase may take if the spec does not say it.
const TIMEOUT: Duration = Duration::from_mins(10);

/// What the live spec says about the deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    /// The groups and kinds of the targets that are deleted.
    kinds: Vec<(String, String)>,
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
        let deleted = targets.iter().filter(|target| target.delete);
        Self {
            kinds: deleted.map(|target| kind(&target.reference)).collect(),
            propagation: deletion.propagation_policy,
            timeout: duration::parse(&deletion.timeout).unwrap_or(TIMEOUT),
            waits_for_gone: deletion.wait_for_gone,
        }
    }

    /// Returns why an object of the plan must not be deleted. Whoever may write the status could have written it there.
    pub(super) fn objection(
        &self,
        object: &PlannedObject,
        namespace: &str,
    ) -> Option<&'static str> {
        // A cluster-scoped object has none. Whether its kind is cluster-scoped, and may be deleted, is found when it is.
        if !object.namespace.is_empty() && object.namespace != namespace {
            return Some("it is in another namespace");
        }
        let is_named = |(group, kind): &(String, String)| {
            *group == object.group && kind.eq_ignore_ascii_case(&object.kind)
        };
        let is_any_named = self.kinds.iter().any(is_named);
        (!is_any_named).then_some("no target of the spec that is deleted has its kind")
    }
}

/// The group and the kind of a reference.
fn kind(reference: &TargetReference) -> (String, String) {
    let group = match (&reference.api_group, &reference.api_version) {
        (Some(group), _) => group.as_str(),
        (None, Some(both)) => both.split_once('/').map_or("", |(group, _)| group),
        (None, None) => "",
    };
    (group.to_owned(), reference.kind.clone())
}

#[cfg(test)]
mod tests;

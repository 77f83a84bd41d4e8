//! Paths that plugins never write, whatever they are granted.

use serde_json::{Map, Value};

use crate::error::{AccessError, shown};
use crate::path::{Segments, segments, unescape};

/// Fields of the pod that are never written.
const POD: [&str; 3] = ["apiVersion", "kind", "status"];

/// Fields of the pod's metadata that are never written.
const METADATA: [&str; 8] = [
    "name",
    "generateName",
    "namespace",
    "uid",
    "ownerReferences",
    "finalizers",
    "resourceVersion",
    "managedFields",
];

/// Labels by which services find pods of the operator.
const LABELS: &str = "selenosis.io/";

/// Annotations that only the host writes.
const ANNOTATIONS: &str = "podloom.dev/";

/// The annotation in which `kubectl apply` keeps the whole applied object, also values that a plugin was not granted.
///
/// It is hidden from plugins that query annotations of the object that they are called for.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The protected path that is at, above or below the path of these keys.
pub(crate) fn never_written_at<'k>(mut keys: impl Iterator<Item = &'k str>) -> Option<String> {
    let in_pod = |key: &str| format!("/{key}");
    let in_metadata = |key: &str| format!("/metadata/{key}");
    match keys.next() {
        None => Some(in_pod(POD[0])),
        Some("metadata") => match keys.next() {
            None => Some(in_metadata(METADATA[0])),
            Some(key) => METADATA.contains(&key).then(|| in_metadata(key)),
        },
        Some(key) => POD.contains(&key).then(|| in_pod(key)),
    }
}

/// A write before it is applied: the old and the new value at a path.
pub(crate) struct PendingWrite<'c> {
    /// The canonical path.
    pub(crate) path: &'c str,
    pub(crate) old: Option<&'c Value>,
    pub(crate) new: Option<&'c Value>,
    /// Keys of the labels that the workload's selector matches.
    pub(crate) labels: &'c [String],
    /// Where the request may change something; none if that is everywhere.
    pub(crate) places: Option<&'c [String]>,
}

impl PendingWrite<'_> {
    /// Refuses the write if it would change a protected path.
    pub(crate) fn check(&self) -> Result<(), AccessError> {
        if let Some(places) = self.places
            && !places.iter().any(|place| is_within(self.path, place))
        {
            return Err(self.error(format_args!(
                "the pod exists already, and this request may change only what is in {}; leave the rest as it is",
                places.join(", ")
            )));
        }
        // The protected names need no escapes, so they can be compared with the raw segments.
        let mut segments = segments(self.path);
        match segments.next() {
            None => self.check_pod(),
            Some("metadata") => self.check_metadata_at(segments),
            Some(key) if POD.contains(&key) => self.refuse(&format!("/{key}")),
            Some(_) => Ok(()),
        }
    }

    fn check_pod(&self) -> Result<(), AccessError> {
        if let Some(key) = changed(self.old, self.new, &POD) {
            return self.refuse(&format!("/{key}"));
        }
        self.check_metadata(field(self.old, "metadata"), field(self.new, "metadata"))
    }

    fn check_metadata_at(&self, mut segments: Segments<'_>) -> Result<(), AccessError> {
        match segments.next() {
            None => self.check_metadata(self.old, self.new),
            Some(map @ ("labels" | "annotations")) => match segments.next().map(unescape) {
                None => self.check_entries(map, self.old, self.new),
                Some(key) => self.check_entry(map, &key, self.old, self.new),
            },
            Some(key) if METADATA.contains(&key) => self.refuse(&format!("/metadata/{key}")),
            Some(_) => Ok(()),
        }
    }

    fn check_metadata(&self, old: Option<&Value>, new: Option<&Value>) -> Result<(), AccessError> {
        if let Some(key) = changed(old, new, &METADATA) {
            return self.refuse(&format!("/metadata/{key}"));
        }
        ["labels", "annotations"]
            .into_iter()
            .try_for_each(|map| self.check_entries(map, field(old, map), field(new, map)))
    }

    /// Checks each key that the labels or annotations had or get.
    fn check_entries(
        &self,
        map: &str,
        old: Option<&Value>,
        new: Option<&Value>,
    ) -> Result<(), AccessError> {
        let mut keys = keys(old).chain(keys(new));
        keys.try_for_each(|key| self.check_entry(map, key, field(old, key), field(new, key)))
    }

    fn check_entry(
        &self,
        map: &str,
        key: &str,
        old: Option<&Value>,
        new: Option<&Value>,
    ) -> Result<(), AccessError> {
        if old == new {
            return Ok(());
        }
        Err(self.error(match map {
            "labels" if key.starts_with(LABELS) => format!(
                "plugins never change the labels {LABELS}*, such as {key}; leave it as it is"
            ),
            "labels" if self.labels.iter().any(|label| label == key) => format!(
                "the workload's selector matches the label {key}, so a change would orphan the pod; leave it as it is"
            ),
            "annotations" if key.starts_with(ANNOTATIONS) => format!(
                "only the host writes the annotations {ANNOTATIONS}*, such as {key}; use a prefix of your own, such as sidecar.podloom.dev/"
            ),
            _ => return Ok(()),
        }))
    }

    fn refuse(&self, never: &str) -> Result<(), AccessError> {
        Err(self.error(format_args!(
            "plugins never change {never}, whatever they are granted; leave it as it is"
        )))
    }

    fn error(&self, reason: impl std::fmt::Display) -> AccessError {
        AccessError::Forbidden(format!(
            "writing {} is forbidden: {reason}",
            shown(self.path)
        ))
    }
}

/// Whether a canonical path is at or below a place, in which `*` stands for any segment.
fn is_within(path: &str, place: &str) -> bool {
    let mut path = segments(path);
    segments(place).all(|wanted| path.next().is_some_and(|it| wanted == "*" || wanted == it))
}

fn field<'v>(value: Option<&'v Value>, key: &str) -> Option<&'v Value> {
    value?.get(key)
}

fn keys(map: Option<&Value>) -> impl Iterator<Item = &str> {
    map.and_then(Value::as_object)
        .into_iter()
        .flat_map(Map::keys)
        .map(String::as_str)
}

/// The first of these fields that differs.
fn changed<'k>(old: Option<&Value>, new: Option<&Value>, keys: &[&'k str]) -> Option<&'k str> {
    keys.iter()
        .copied()
        .find(|key| field(old, key) != field(new, key))
}

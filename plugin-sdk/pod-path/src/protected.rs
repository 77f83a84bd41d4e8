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
}

impl PendingWrite<'_> {
    /// Refuses the write if it would change a protected path.
    pub(crate) fn check(&self) -> Result<(), AccessError> {
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
            Some("labels") => match segments.next().map(unescape) {
                None => check_each(self.old, self.new, |key, old, new| {
                    self.check_label(key, old, new)
                }),
                Some(key) => self.check_label(&key, self.old, self.new),
            },
            Some("annotations") => match segments.next().map(unescape) {
                None => check_each(self.old, self.new, |key, old, new| {
                    self.check_annotation(key, old, new)
                }),
                Some(key) => self.check_annotation(&key, self.old, self.new),
            },
            Some(key) if METADATA.contains(&key) => self.refuse(&format!("/metadata/{key}")),
            Some(_) => Ok(()),
        }
    }

    fn check_metadata(&self, old: Option<&Value>, new: Option<&Value>) -> Result<(), AccessError> {
        if let Some(key) = changed(old, new, &METADATA) {
            return self.refuse(&format!("/metadata/{key}"));
        }
        let both = |key| (field(old, key), field(new, key));
        let (old, new) = both("labels");
        check_each(old, new, |key, old, new| self.check_label(key, old, new))?;
        let (old, new) = both("annotations");
        check_each(old, new, |key, old, new| {
            self.check_annotation(key, old, new)
        })
    }

    fn check_label(
        &self,
        key: &str,
        old: Option<&Value>,
        new: Option<&Value>,
    ) -> Result<(), AccessError> {
        if old == new {
            return Ok(());
        }
        if key.starts_with(LABELS) {
            return Err(self.error(format_args!(
                "plugins never change the labels {LABELS}*, such as {key}; leave it as it is"
            )));
        }
        if self.labels.iter().any(|label| label == key) {
            return Err(self.error(format_args!(
                "the workload's selector matches the label {key}, so a change would orphan the pod; leave it as it is"
            )));
        }
        Ok(())
    }

    fn check_annotation(
        &self,
        key: &str,
        old: Option<&Value>,
        new: Option<&Value>,
    ) -> Result<(), AccessError> {
        if old == new || !key.starts_with(ANNOTATIONS) {
            return Ok(());
        }
        Err(self.error(format_args!(
            "only the host writes the annotations {ANNOTATIONS}*, such as {key}; use a prefix of your own, such as sidecar.podloom.dev/"
        )))
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

fn field<'v>(value: Option<&'v Value>, key: &str) -> Option<&'v Value> {
    value?.get(key)
}

/// Checks each key that a map had or gets.
fn check_each(
    old: Option<&Value>,
    new: Option<&Value>,
    check: impl Fn(&str, Option<&Value>, Option<&Value>) -> Result<(), AccessError>,
) -> Result<(), AccessError> {
    let mut keys = keys(old).chain(keys(new));
    keys.try_for_each(|key| check(key, field(old, key), field(new, key)))
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

//! Changes of pods that exist: what one changes, and what plugins may write then.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

/// What is done to a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Operation {
    /// It is created.
    #[default]
    Create,
    /// Its images change, or one of the few other fields that may.
    Update,
    /// Its resources change, by the subresource `resize`.
    Resize,
    /// It gets further containers, by the subresource `ephemeralcontainers`, as with `kubectl debug`.
    EphemeralContainers,
}

/// A change of a pod that exists.
///
/// ```
/// use podloom_mutation::{LaterChange, Operation};
/// use serde_json::json;
///
/// let pod = |containers| json!({ "spec": { "ephemeralContainers": containers } });
/// let new = pod(json!([{ "name": "debugger" }]));
/// let change = LaterChange::of(Operation::EphemeralContainers, &pod(json!([])), &new).unwrap();
/// assert_eq!(change.changes, ["/spec/ephemeralContainers/[name=debugger]"]);
/// assert!(LaterChange::of(Operation::EphemeralContainers, &new, &new).is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaterChange {
    /// What is done. It is never [`Operation::Create`].
    pub operation: Operation,
    /// The paths of what it changes in the pod's spec.
    pub changes: Vec<String>,
    /// The paths at or below which plugins may write: where the API server lets this operation change something. A `*` stands for any
    /// element.
    pub places: Arc<[String]>,
}

impl Operation {
    /// Returns the word that plugins and people read.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Resize => "resize",
            Self::EphemeralContainers => "ephemeral-containers",
        }
    }
}

/// The lists of containers that run from the beginning.
const LISTS: [&str; 2] = ["containers", "initContainers"];
const EPHEMERAL: &str = "ephemeralContainers";
/// Fields of the spec that may change in a pod that exists, some of them only while it waits at a gate.
const UPDATED: [&str; 6] = [
    "activeDeadlineSeconds",
    "affinity",
    "nodeSelector",
    "schedulingGates",
    "terminationGracePeriodSeconds",
    "tolerations",
];
/// Where plugins may write in an update. Not labels: nobody knows then which of them a controller needs.
const UPDATE_PLACES: [&str; 5] = [
    "/metadata/annotations",
    "/spec/activeDeadlineSeconds",
    "/spec/containers/*/image",
    "/spec/initContainers/*/image",
    "/spec/tolerations",
];
const RESIZE_PLACES: [&str; 2] = [
    "/spec/containers/*/resources",
    "/spec/initContainers/*/resources",
];

impl LaterChange {
    /// Returns what an operation changes in a pod; none if it is nothing in the spec that may change, and for a new pod.
    #[must_use]
    pub fn of(operation: Operation, old: &Value, new: &Value) -> Option<Self> {
        let changes = match operation {
            Operation::Create => Vec::new(),
            Operation::Update => {
                let fields = UPDATED.into_iter().filter(|field| differ(old, new, field));
                let fields = fields.map(|field| format!("/spec/{field}"));
                let images = LISTS
                    .into_iter()
                    .flat_map(|list| changed(old, new, list, "image"));
                images.chain(fields).collect()
            }
            Operation::Resize => {
                let lists = LISTS.into_iter();
                let mut all: Vec<_> = lists
                    .flat_map(|list| changed(old, new, list, "resources"))
                    .collect();
                if differ(old, new, "resources") {
                    all.push("/spec/resources".to_owned());
                }
                all
            }
            Operation::EphemeralContainers => {
                let before = by_name(old, EPHEMERAL);
                let names = list(new, EPHEMERAL).iter().map(name);
                let names = names.filter(|name| !before.contains_key(name));
                names.map(|name| element(EPHEMERAL, name)).collect()
            }
        };
        let places = match operation {
            Operation::Create => Arc::default(),
            Operation::Update => UPDATE_PLACES.map(str::to_owned).into(),
            Operation::Resize => RESIZE_PLACES.map(str::to_owned).into(),
            Operation::EphemeralContainers => changes.clone().into(),
        };
        (!changes.is_empty()).then_some(Self {
            operation,
            changes,
            places,
        })
    }
}

impl LaterChange {
    /// Returns what changes between two states of a pod, by the first operation that may change such a thing; none if no operation may.
    #[must_use]
    pub fn between(old: &Value, new: &Value) -> Option<Self> {
        let operations = [
            Operation::EphemeralContainers,
            Operation::Resize,
            Operation::Update,
        ];
        let mut operations = operations.into_iter();
        operations.find_map(|operation| Self::of(operation, old, new))
    }
}

/// The paths of this field in the containers where it differs, also in those that were not there before.
fn changed(old: &Value, new: &Value, of: &str, field: &str) -> Vec<String> {
    let before = by_name(old, of);
    let containers = list(new, of).iter();
    let changed = containers.filter(|it| {
        let before = before.get(name(it)).and_then(|it| it.get(field));
        before != it.get(field)
    });
    changed
        .map(|it| format!("{}/{field}", element(of, name(it))))
        .collect()
}

fn differ(old: &Value, new: &Value, field: &str) -> bool {
    let of = |pod: &Value| pod.get("spec").and_then(|spec| spec.get(field)).cloned();
    of(old) != of(new)
}

fn list<'p>(pod: &'p Value, of: &str) -> &'p [Value] {
    let list = pod.get("spec").and_then(|spec| spec.get(of)?.as_array());
    list.map(Vec::as_slice).unwrap_or_default()
}

fn by_name<'p>(pod: &'p Value, of: &str) -> HashMap<&'p str, &'p Value> {
    list(pod, of).iter().map(|it| (name(it), it)).collect()
}

fn name(container: &Value) -> &str {
    let name = container.get("name").and_then(Value::as_str);
    name.unwrap_or_default()
}

/// The canonical path of a container.
fn element(list: &str, name: &str) -> String {
    let name = name.replace('~', "~0").replace('/', "~1");
    format!("/spec/{list}/[name={name}]")
}

#[cfg(test)]
mod tests;

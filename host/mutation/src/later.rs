//! Changes of pods that exist: what one changes, and what plugins may write then.

use std::collections::HashMap;
use std::sync::Arc;

use podloom_pod_path::Operation;
use serde_json::Value;

/// A change of a pod that exists.
///
/// ```
/// use podloom_mutation::{LaterChange, Operation};
/// use serde_json::json;
///
/// let old = json!({ "spec": { "hostPID": true } });
/// let new = json!({ "spec": { "hostPID": false, "ephemeralContainers": [{ "name": "debugger" }] } });
/// let (change, pod) = LaterChange::of(Operation::EphemeralContainers, &old, new).unwrap();
/// assert_eq!(change.changes, ["/spec/ephemeralContainers/[name=debugger]"]);
/// // Nothing else of the pod can change.
/// assert_eq!(pod["spec"]["hostPID"], true);
/// assert!(LaterChange::of(Operation::EphemeralContainers, &pod, pod.clone()).is_none());
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

/// The lists of containers that run from the beginning.
const LISTS: [&str; 2] = ["containers", "initContainers"];
const EPHEMERAL: &str = "ephemeralContainers";
/// Of a pod, and of its containers.
const RESOURCES: &str = "resources";
const RESIZED: [&str; 2] = [RESOURCES, "resizePolicy"];
/// Fields of the spec that may change in a pod that exists, some of them only while it waits at a gate.
const UPDATED: [&str; 6] = [
    "activeDeadlineSeconds",
    "affinity",
    "nodeSelector",
    "schedulingGates",
    "terminationGracePeriodSeconds",
    "tolerations",
];

impl LaterChange {
    /// Returns what happens to a pod that becomes that of a session: nothing of its spec changes.
    #[must_use]
    pub fn claim() -> Self {
        let operation = Operation::Claim;
        Self {
            operation,
            changes: Vec::new(),
            places: operation.places(&[]).unwrap_or_default(),
        }
    }

    /// Returns what an operation changes in a pod, and the pod as the API server will store it: of what a request for a subresource says,
    /// it takes only what that may change, after the webhooks. None if nothing in the spec changes that may, and for a new pod.
    #[must_use]
    pub fn of(operation: Operation, old: &Value, new: Value) -> Option<(Self, Value)> {
        let changes = match operation {
            Operation::Create | Operation::Claim => Vec::new(),
            Operation::Update => {
                let fields = UPDATED.into_iter().filter(|field| differ(old, &new, field));
                let fields = fields.map(|field| format!("/spec/{field}"));
                let images = LISTS.into_iter();
                let images = images.flat_map(|list| changed(old, &new, list, &["image"]));
                images.chain(fields).collect()
            }
            Operation::Resize => {
                let lists = LISTS.into_iter();
                let mut all: Vec<_> = lists
                    .flat_map(|list| changed(old, &new, list, &RESIZED))
                    .collect();
                if differ(old, &new, RESOURCES) {
                    all.push("/spec/resources".to_owned());
                }
                all
            }
            Operation::EphemeralContainers => {
                let before = by_name(old, EPHEMERAL);
                let names = list(&new, EPHEMERAL).iter().map(name);
                let names = names.filter(|name| !before.contains_key(name));
                names.map(|name| element(EPHEMERAL, name)).collect()
            }
        };
        let places = operation.places(&changes)?;
        let change = Self {
            operation,
            places,
            changes,
        };
        (!change.changes.is_empty()).then(|| (change, stored(operation, old, new)))
    }

    /// Returns the same for two states of a pod, by the first operation that may change such a thing; none if no operation may.
    #[must_use]
    pub fn between(old: &Value, new: &Value) -> Option<(Self, Value)> {
        let operations = [
            Operation::EphemeralContainers,
            Operation::Resize,
            Operation::Update,
        ];
        let mut operations = operations.into_iter();
        operations.find_map(|operation| Self::of(operation, old, new.clone()))
    }
}

/// The pod as the API server will store it.
fn stored(operation: Operation, old: &Value, new: Value) -> Value {
    if operation == Operation::Update {
        return new;
    }
    let mut pod = old.clone();
    let from = new.get("spec");
    let Some(spec) = pod.get_mut("spec") else {
        return new;
    };
    match operation {
        Operation::Create | Operation::Update | Operation::Claim => {}
        Operation::EphemeralContainers => put(spec, from, EPHEMERAL),
        Operation::Resize => {
            put(spec, from, RESOURCES);
            for of in LISTS {
                let (before, after) = (list(old, of), list(&new, of));
                if !before.iter().map(name).eq(after.iter().map(name)) {
                    // The API server refuses it.
                    return new;
                }
                let containers = spec.get_mut(of).and_then(Value::as_array_mut);
                for (container, after) in containers.into_iter().flatten().zip(after) {
                    for field in RESIZED {
                        put(container, Some(after), field);
                    }
                }
            }
        }
    }
    pod
}

/// Makes a field what it is in the other object. What is no object has no fields.
fn put(to: &mut Value, from: Option<&Value>, field: &str) {
    let Value::Object(fields) = to else {
        return;
    };
    match from.and_then(|from| from.get(field)) {
        Some(value) => drop(fields.insert(field.to_owned(), value.clone())),
        None => drop(fields.remove(field)),
    }
}

/// The paths of these fields in the containers where they differ, also in those that were not there before.
fn changed(old: &Value, new: &Value, of: &str, fields: &[&str]) -> Vec<String> {
    let before = by_name(old, of);
    let mut changed = Vec::new();
    for container in list(new, of) {
        let before = before.get(name(container));
        for field in fields {
            if before.and_then(|it| it.get(field)) != container.get(field) {
                changed.push(format!("{}/{field}", element(of, name(container))));
            }
        }
    }
    changed
}

fn differ(old: &Value, new: &Value, field: &str) -> bool {
    let [old, new] = [old, new].map(|pod| pod.get("spec").and_then(|spec| spec.get(field)));
    old != new
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

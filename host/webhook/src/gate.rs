//! The gate: a policy of the API server puts it on each new pod, and the webhook takes it from those that pass the chain.
//!
//! So a pod that was created while no webhook answered waits, and nothing of it is started. [`GatedPods`] has such pods made anew.

mod pace;
mod waiting;

use podloom_api::names::{label, scheduling_gate};
use serde_json::{Value, json};
pub use waiting::{GateMetrics, GatedPods};

/// The gate of a pod, which has been taken from it.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct OpenGate {
    /// The operations of a JSON Patch that do the same.
    operations: Vec<Value>,
}

impl OpenGate {
    /// Takes the gate and its label from a pod.
    pub(crate) fn of(pod: &mut Value) -> Self {
        let mut operations = Vec::new();
        let gates = pod.pointer_mut("/spec/schedulingGates");
        if let Some(gates) = gates.and_then(Value::as_array_mut) {
            // From the end, so that the indices before stay right.
            for index in (0..gates.len()).rev() {
                if gates.get(index).is_some_and(is_ours) {
                    gates.remove(index);
                    let path = format!("/spec/schedulingGates/{index}");
                    operations.push(json!({ "op": "remove", "path": path }));
                }
            }
        }
        let labels = pod.pointer_mut("/metadata/labels");
        let labels = labels.and_then(Value::as_object_mut);
        if labels.is_some_and(|labels| labels.remove(label::GATED).is_some()) {
            let path = format!("/metadata/labels/{}", label::GATED.replace('/', "~1"));
            operations.push(json!({ "op": "remove", "path": path }));
        }
        Self { operations }
    }

    /// The JSON Patch of the pod without its gate, with these operations before it; none if nothing changes.
    pub(crate) fn before(self, patch: Option<String>) -> Option<String> {
        if self.operations.is_empty() {
            return patch;
        }
        let opened = Value::Array(self.operations).to_string();
        let Some(patch) = patch else {
            return Some(opened);
        };
        // Both are arrays that are not empty.
        let (first, rest) = (opened.strip_suffix(']'), patch.strip_prefix('['));
        Some([first.unwrap_or_default(), rest.unwrap_or_default()].join(","))
    }
}

fn is_ours(gate: &Value) -> bool {
    gate.get("name").and_then(Value::as_str) == Some(scheduling_gate::CHAIN)
}

#[cfg(test)]
mod tests;

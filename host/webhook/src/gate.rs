//! The gate: a policy of the API server closes it on each new pod, and the webhook opens it for those that pass the chain.
//!
//! So a pod that was created while no webhook answered waits, and nothing of it is started. The operator has such pods replaced.

use podloom_api::names::scheduling_gate;
use serde_json::{Value, json};

/// Where the gates of a pod are.
const GATES: &str = "/spec/schedulingGates";

/// The gate of a pod, which was taken from it.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct TakenGate {
    /// The operation of a JSON Patch that does the same; none if there was no gate.
    operation: Option<Value>,
}

impl TakenGate {
    /// Takes our gate from a pod.
    pub(crate) fn take(pod: &mut Value) -> Self {
        let Some(Value::Array(gates)) = pod.pointer_mut(GATES) else {
            return Self::default();
        };
        let before = gates.len();
        gates.retain(|gate| !is_ours(gate));
        let operation = match gates.len() {
            after if after == before => None,
            0 => Some(json!({ "op": "remove", "path": GATES })),
            _ => Some(json!({ "op": "replace", "path": GATES, "value": gates })),
        };
        let is_empty = gates.is_empty();
        if let Some(Value::Object(spec)) = pod.get_mut("spec").filter(|_| is_empty) {
            spec.remove("schedulingGates");
        }
        Self { operation }
    }

    /// The JSON Patch of the pod without its gate, after the operation that takes it; none if nothing changes.
    pub(crate) fn prepend_to(self, patch: Option<String>) -> Option<String> {
        let Some(operation) = self.operation else {
            return patch;
        };
        let patch = patch.unwrap_or_else(|| "[]".to_owned());
        let rest = patch.strip_prefix('[').unwrap_or_default();
        let comma = if rest == "]" { "" } else { "," };
        Some(format!("[{operation}{comma}{rest}"))
    }
}

fn is_ours(gate: &Value) -> bool {
    gate.get("name").and_then(Value::as_str) == Some(scheduling_gate::CHAIN)
}

#[cfg(test)]
mod tests;

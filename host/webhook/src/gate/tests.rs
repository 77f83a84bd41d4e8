use json_patch::Patch;
use serde_json::{Value, json};

use super::TakenGate;

/// Takes the gate of a pod, and applies the patch to the same pod: both must make the same.
fn opened(pod: Value, patch: Option<&str>) -> (Value, Option<String>) {
    let (mut taken, mut patched) = (pod.clone(), pod);
    let gate = TakenGate::take(&mut taken);
    let alone = TakenGate {
        operation: gate.operation.clone(),
    };
    let operations = alone.prepend_to(None).unwrap_or_else(|| "[]".to_owned());
    let operations: Patch = serde_json::from_str(&operations).expect("a JSON Patch");
    json_patch::patch(&mut patched, &operations).expect("it applies");
    assert_eq!(patched, taken);
    (taken, gate.prepend_to(patch.map(str::to_owned)))
}

#[test]
fn only_our_gate_is_taken_away() {
    let gates = |gates: Value| json!({ "spec": { "schedulingGates": gates, "nodeSelector": {} } });
    let (ours, other) = (
        json!({ "name": "podloom.dev/chain" }),
        json!({ "name": "quota" }),
    );
    let without = json!({ "spec": { "nodeSelector": {} } });
    assert_eq!(opened(gates(json!([ours])), None).0, without);
    // A review is not yet validated: it may have a gate twice.
    let (pod, _) = opened(gates(json!([ours, other, ours, null])), None);
    assert_eq!(pod, gates(json!([other, null])));
}

#[test]
fn what_the_chain_writes_comes_after_it() {
    let write = r#"[{"op":"add","path":"/metadata/labels/team","value":"core"}]"#;
    let gated = json!({ "spec": { "schedulingGates": [{ "name": "podloom.dev/chain" }] } });
    let (_, patch) = opened(gated, Some(write));
    let patch: Value = serde_json::from_str(&patch.expect("a patch")).expect("JSON");
    let paths: Vec<&Value> = patch
        .as_array()
        .into_iter()
        .flatten()
        .map(|it| &it["path"])
        .collect();
    assert_eq!(paths, ["/spec/schedulingGates", "/metadata/labels/team"]);
}

#[test]
fn a_pod_without_our_gate_costs_no_operation() {
    for pod in [
        json!({}),
        json!([]),
        json!({ "spec": { "schedulingGates": "none" } }),
        json!({ "spec": { "schedulingGates": [{ "name": "quota" }, null, 1] } }),
    ] {
        assert_eq!(
            opened(pod.clone(), Some("[1]")),
            (pod.clone(), Some("[1]".to_owned()))
        );
        assert_eq!(opened(pod.clone(), None), (pod, None));
    }
}

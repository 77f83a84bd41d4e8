use json_patch::Patch;
use serde_json::{Value, json};

use super::OpenGate;

/// Opens the gate of a pod, and applies the patch to it: both must make the same pod.
fn opened(pod: Value, patch: Option<&str>) -> (Value, Option<String>) {
    let (mut opened, mut patched) = (pod.clone(), pod);
    let patch = OpenGate::of(&mut opened).before(patch.map(str::to_owned));
    if let Some(patch) = &patch {
        let operations: Patch = serde_json::from_str(patch).expect("a JSON Patch");
        json_patch::patch(&mut patched, &operations).expect("it applies");
    }
    (patched, patch)
}

#[test]
fn only_our_gate_and_its_label_are_taken_away() {
    let pod = json!({
        "metadata": { "labels": { "app": "web", "podloom.dev/gated": "true" } },
        "spec": { "schedulingGates": [{ "name": "podloom.dev/chain" }, { "name": "quota" }, { "name": "podloom.dev/chain" }] },
    });
    let (pod, _) = opened(pod, None);
    let without = json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "schedulingGates": [{ "name": "quota" }] } });
    assert_eq!(pod, without);
}

#[test]
fn what_the_chain_writes_comes_after_it() {
    let write = r#"[{"op":"add","path":"/metadata/labels/team","value":"core"}]"#;
    let gated = json!({
        "metadata": { "labels": { "podloom.dev/gated": "true" } },
        "spec": { "schedulingGates": [{ "name": "podloom.dev/chain" }] },
    });
    let (pod, patch) = opened(gated, Some(write));
    let without =
        json!({ "metadata": { "labels": { "team": "core" } }, "spec": { "schedulingGates": [] } });
    assert_eq!(pod, without);
    assert!(patch.is_some_and(|patch| patch.ends_with(&write[1..])));
}

#[test]
fn a_pod_without_a_gate_costs_no_operation() {
    for pod in [
        json!({}),
        json!({ "spec": { "schedulingGates": "none" }, "metadata": { "labels": [] } }),
        json!({ "spec": { "schedulingGates": [{ "name": "quota" }, null, 1] } }),
    ] {
        assert_eq!(opened(pod.clone(), None), (pod, None));
    }
}

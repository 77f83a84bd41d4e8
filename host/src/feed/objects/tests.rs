use serde_json::{Value, json};

use super::{KINDS, submitted};

fn of(kind: &str, object: Value) -> Option<Value> {
    let kind = KINDS.into_iter().find(|it| it.kind == kind).unwrap();
    submitted(kind, object)
}

fn owned(kind: &str, is_controller: bool) -> Value {
    let owner = json!({ "kind": kind, "name": "o", "controller": is_controller });
    json!({ "metadata": { "name": "a", "ownerReferences": [owner] } })
}

#[test]
fn what_is_made_of_another_template_is_left_out() {
    for (kind, owner, expected) in [
        ("Pod", "ReplicaSet", false),
        ("Pod", "Browser", false),
        ("ReplicaSet", "Deployment", false),
        ("ReplicaSet", "Rollout", false),
        ("Job", "CronJob", false),
        ("Job", "Workflow", true),
        ("Deployment", "Tenant", true),
    ] {
        let found = of(kind, owned(owner, true)).is_some();
        assert_eq!(found, expected, "{kind} of a {owner}");
        assert!(of(kind, owned(owner, false)).is_some(), "{kind}");
    }
}

#[test]
fn a_pod_is_taken_as_the_webhook_saw_it() {
    let pod = json!({
        "metadata": {
            "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [{}], "labels": { "app": "a" }, "annotations": { "a": "b" },
        },
        "spec": { "nodeName": "node", "serviceAccountName": "default", "containers": [{ "name": "a" }] },
        "status": { "phase": "Running" },
    });
    let expected = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "a", "namespace": "n", "labels": { "app": "a" }, "annotations": { "a": "b" } },
        "spec": { "serviceAccountName": "default", "containers": [{ "name": "a" }] },
    });
    assert_eq!(of("Pod", pod), Some(expected));
}

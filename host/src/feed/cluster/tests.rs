use serde_json::{Value, json};

use super::{KINDS, Submitted, submitted};

fn of(kind: &str, object: Value) -> Submitted {
    let kind = KINDS.into_iter().find(|it| it.kind == kind).unwrap();
    submitted(kind, object)
}

fn owned(api_version: &str, kind: &str, is_controller: bool) -> Value {
    let owner = json!({ "apiVersion": api_version, "kind": kind, "name": "o", "controller": is_controller });
    json!({ "metadata": { "name": "a", "ownerReferences": [owner] } })
}

#[test]
fn what_is_made_of_another_template_is_left_out() {
    for (kind, api_version, owner, expected) in [
        ("Pod", "apps/v1", "ReplicaSet", "owner"),
        ("Pod", "batch/v1", "Job", "owner"),
        ("Pod", "v1", "ReplicationController", "owner"),
        ("Pod", "v1", "Node", "owner"),
        ("Pod", "selenosis.io/v1", "Browser", "owner"),
        ("Pod", "browser.selenosis.io/v1", "Browser", "owner"),
        ("Pod", "argoproj.io/v1alpha1", "Workflow", "unread"),
        // Kinds with a known name, in another group.
        ("Pod", "batch.volcano.sh/v1alpha1", "Job", "unread"),
        ("Pod", "example.com/v1", "Browser", "unread"),
        ("ReplicaSet", "apps/v1", "Deployment", "owner"),
        ("ReplicaSet", "argoproj.io/v1alpha1", "Rollout", "itself"),
        (
            "ReplicationController",
            "apps.openshift.io/v1",
            "DeploymentConfig",
            "itself",
        ),
        ("Job", "batch/v1", "CronJob", "owner"),
        ("Job", "argoproj.io/v1alpha1", "Workflow", "itself"),
        ("Deployment", "example.com/v1", "Tenant", "itself"),
    ] {
        let found = match of(kind, owned(api_version, owner, true)) {
            Submitted::Itself(_) => "itself",
            Submitted::OfOwner => "owner",
            Submitted::OfUnread(unread) => {
                assert_eq!(unread, owner);
                "unread"
            }
        };
        assert_eq!(found, expected, "{kind} of a {api_version} {owner}");
        let alone = of(kind, owned(api_version, owner, false));
        assert!(matches!(alone, Submitted::Itself(_)), "{kind}");
    }
}

#[test]
fn what_a_rollout_left_behind_makes_no_pods() {
    let mut replica_set = owned("argoproj.io/v1alpha1", "Rollout", true);
    replica_set["spec"] = json!({ "replicas": 0 });
    assert_eq!(of("ReplicaSet", replica_set), Submitted::OfOwner);
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
    assert_eq!(of("Pod", pod), Submitted::Itself(expected));
}

use kube::core::GroupVersionKind;
use podloom_webhook::OwnerKind;
use serde_json::{Value, json};

use super::{Fate, Manual, Target, ignores_evictions};
use crate::drift::Pod;

/// A pod with a gate and, if there is one, a controller.
pub(crate) fn target(name: &str, owner: &Value) -> Target {
    let pod = json!({
        "metadata": {
            "namespace": "shop", "name": name, "uid": format!("uid-{name}"), "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": [owner],
        },
        "spec": { "schedulingGates": [{ "name": "podloom.dev/chain" }] },
    });
    Target::of(&Pod(&pod))
}

fn owner(api_version: &str, kind: &str) -> Value {
    json!({ "apiVersion": api_version, "kind": kind, "name": "web", "uid": "o", "controller": true })
}

#[test]
fn only_pods_that_a_known_controller_replaces_are_evicted() {
    let others =
        [("apps.kruise.io", "CloneSet"), ("batch.volcano.sh", "Job")].map(|(group, kind)| {
            let kind = GroupVersionKind::gvk(group, "v1alpha1", kind);
            OwnerKind::new(&kind, "system:serviceaccount:a:b".to_owned())
        });
    let unknown = Fate::Manual(Manual::UnknownOwner);
    for (api_version, kind, fate) in [
        ("apps/v1", "ReplicaSet", Fate::Evict),
        ("apps/v1", "StatefulSet", Fate::Evict),
        ("apps/v1", "DaemonSet", Fate::Evict),
        ("v1", "ReplicationController", Fate::Evict),
        ("apps.kruise.io/v1beta1", "CloneSet", Fate::Evict),
        ("batch.volcano.sh/v1alpha1", "Job", Fate::Evict),
        ("batch/v1", "Job", Fate::AskJob),
        ("batch/v9", "Job", unknown),
        ("selenosis.io/v1", "Browser", unknown),
        ("example.com/v1", "ReplicaSet", unknown),
    ] {
        let pod = target("a", &owner(api_version, kind));
        assert_eq!(pod.fate(&others), fate, "{kind} of {api_version}");
    }
    // An owner that is not the controller creates no pods.
    let mut bystander = owner("apps/v1", "ReplicaSet");
    bystander["controller"] = json!(false);
    assert_eq!(
        target("a", &bystander).fate(&[]),
        Fate::Manual(Manual::Bare)
    );
}

#[test]
fn an_owner_that_no_api_server_would_take_is_unknown() {
    for (field, text) in [
        ("name", "a/status".to_owned()),
        ("name", "a b".to_owned()),
        ("name", "x".repeat(10_000)),
        ("uid", "x".repeat(65)),
    ] {
        let mut owner = owner("batch/v1", "Job");
        owner[field] = json!(text);
        assert_eq!(
            target("a", &owner).fate(&[]),
            Fate::Manual(Manual::UnknownOwner),
            "{text}"
        );
    }
}

#[test]
fn what_has_no_gate_or_is_over_does_not_wait() {
    let gated = |metadata: Value, gates: Value| {
        let pod = json!({ "metadata": metadata, "spec": { "schedulingGates": gates } });
        let pod = Pod(&pod);
        pod.is_gated() && !pod.is_over()
    };
    let ours = json!([{ "name": "quota" }, { "name": "podloom.dev/chain" }]);
    assert!(gated(json!({ "name": "a" }), ours.clone()));
    assert!(!gated(
        json!({ "name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z" }),
        ours
    ));
    assert!(!gated(json!({ "name": "a" }), json!([{ "name": "quota" }])));
    assert!(!gated(json!({ "name": "a" }), json!(null)));
}

#[test]
fn a_job_decides_by_its_failure_policy() {
    let rule = |action: &str, condition: &str, status: &str| json!({ "action": action, "onPodConditions": [{ "type": condition, "status": status }] });
    let ignore = rule("Ignore", "DisruptionTarget", "True");
    for (rules, goes_on) in [
        (vec![ignore.clone()], true),
        (
            vec![
                rule("FailJob", "ConfigIssue", "True"),
                rule("Ignore", "DisruptionTarget", ""),
            ],
            true,
        ),
        (vec![rule("Ignore", "DisruptionTarget", "False")], false),
        // The first rule that matches decides.
        (
            vec![rule("Count", "DisruptionTarget", "True"), ignore],
            false,
        ),
        (vec![], false),
    ] {
        let job = json!({ "spec": { "template": {}, "podFailurePolicy": { "rules": rules } } });
        let job = serde_json::from_value(job).expect("a Job");
        assert_eq!(ignores_evictions(&job), goes_on, "{job:?}");
    }
}

#[test]
fn an_eviction_is_of_this_pod_as_it_was_read() {
    let sent = target("a", &owner("apps/v1", "ReplicaSet")).eviction();
    let sent = serde_json::to_value(sent).expect("JSON");
    let expected = json!({ "uid": "uid-a", "resourceVersion": "7" });
    assert_eq!(sent["deleteOptions"]["preconditions"], expected);
}

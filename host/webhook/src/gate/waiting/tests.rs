use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::{GroupVersionKind, ObjectMeta};
use serde_json::{Value, json};

use super::{Fate, Left, Memory, eviction, ignores_evictions};
use crate::owners::OwnerKind;

fn pod(metadata: Value) -> ObjectMeta {
    serde_json::from_value(metadata).expect("metadata")
}

fn owned_by(api_version: &str, kind: &str) -> ObjectMeta {
    let owner = json!({ "apiVersion": api_version, "kind": kind, "name": "a", "uid": "o", "controller": true });
    pod(json!({ "uid": "p", "ownerReferences": [owner] }))
}

#[test]
fn only_pods_that_a_known_controller_makes_anew_are_evicted() {
    let memory = Memory::default();
    let kind = GroupVersionKind::gvk("apps.kruise.io", "v1alpha1", "CloneSet");
    let others = [OwnerKind::new(
        &kind,
        "system:serviceaccount:a:b".to_owned(),
    )];
    let leave = Fate::Leave(Left::UnknownOwner);
    for (api_version, kind, fate) in [
        ("apps/v1", "ReplicaSet", Fate::MakeAnew),
        ("apps/v1", "StatefulSet", Fate::MakeAnew),
        ("apps/v1", "DaemonSet", Fate::MakeAnew),
        ("v1", "ReplicationController", Fate::MakeAnew),
        ("apps.kruise.io/v1beta1", "CloneSet", Fate::MakeAnew),
        ("batch/v1", "Job", Fate::AskJob),
        ("selenosis.io/v1", "Browser", leave),
        ("example.com/v1", "ReplicaSet", leave),
        ("v1", "Node", leave),
    ] {
        let pod = owned_by(api_version, kind);
        assert_eq!(memory.fate(&pod, &others), fate, "{kind} of {api_version}");
    }
    // An owner that is not the controller makes no pods.
    let owner = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a", "uid": "o" });
    let bare = pod(json!({ "uid": "p", "ownerReferences": [owner] }));
    assert_eq!(memory.fate(&bare, &others), Fate::Leave(Left::Bare));
}

#[test]
fn what_is_being_deleted_or_has_no_gate_is_left_alone() {
    let mut memory = Memory::default();
    let waits = owned_by("apps/v1", "ReplicaSet");
    let deleted = ObjectMeta {
        deletion_timestamp: Some(Time(jiff::Timestamp::UNIX_EPOCH)),
        ..waits.clone()
    };
    assert_eq!(memory.fate(&deleted, &[]), Fate::Ignore);
    memory.ungated.insert("p".to_owned());
    assert_eq!(memory.fate(&waits, &[]), Fate::Ignore);
}

#[test]
fn a_job_decides_by_its_failure_policy() {
    let rule = |action: &str, condition: &str, status: &str| json!({ "action": action, "onPodConditions": [{ "type": condition, "status": status }] });
    for (rules, goes_on) in [
        (vec![rule("Ignore", "DisruptionTarget", "True")], true),
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
            vec![
                rule("Count", "DisruptionTarget", "True"),
                rule("Ignore", "DisruptionTarget", "True"),
            ],
            false,
        ),
        (vec![], false),
    ] {
        let job = json!({ "spec": { "template": {}, "podFailurePolicy": { "rules": rules } } });
        let job: Job = serde_json::from_value(job).expect("a Job");
        assert_eq!(ignores_evictions(&job), goes_on, "{job:?}");
    }
    assert!(!ignores_evictions(&Job::default()));
    let mut memory = Memory::default();
    for (goes_on, fate) in [(true, Fate::MakeAnew), (false, Fate::Leave(Left::Job))] {
        memory.jobs.insert("o".to_owned(), goes_on);
        assert_eq!(memory.fate(&owned_by("batch/v1", "Job"), &[]), fate);
    }
}

#[test]
fn an_eviction_is_of_this_pod_as_it_is_now() {
    let pod = json!({ "metadata": { "namespace": "shop", "name": "a", "uid": "u", "resourceVersion": "7" } });
    let eviction = eviction(&serde_json::from_value(pod).expect("a pod"));
    let sent = serde_json::to_value(eviction).expect("JSON");
    let expected = json!({ "uid": "u", "resourceVersion": "7" });
    assert_eq!(sent["deleteOptions"]["preconditions"], expected);
}

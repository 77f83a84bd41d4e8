mod variables;

use serde_json::{Value, json};

use super::{BYTES_MAX, of, stored_bytes};
use crate::fixtures::{kind, list, missing, named, one, pod, secret};

#[test]
fn nothing_secret_and_nothing_needless_is_kept() {
    let mut it = secret("login", "1");
    it["data"] = json!({ "password": "aHVudGVyMg==" });
    it["stringData"] = json!({ "password": "hunter2" });
    it["metadata"]["managedFields"] = json!([{ "manager": "x" }]);
    it["metadata"]["annotations"] = json!({ "kubectl.kubernetes.io/last-applied-configuration": "hunter2", "kapp.k14s.io/original": "hunter2", "team": "x" });
    let mut targets = [one("one", it.clone(), true), list("all", &[it], false)];
    for target in &mut targets {
        target.kind = kind("Secret", "secrets");
    }
    let snapshots = of(&targets);
    let kept = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "login", "namespace": "demo", "uid": "1",
        "annotations": { "team": "x" } } });
    assert_eq!(snapshots[0].state, Some(kept.clone()));
    assert_eq!(snapshots[1].state.as_ref().unwrap()["items"], json!([kept]));
    assert!(
        !serde_json::to_string(&snapshots)
            .unwrap()
            .contains("hunter2")
    );
}

/// The data of a ConfigMap is not secret.
#[test]
fn other_data_stays() {
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "uid": "1" }, "data": { "a": "b" },
        "items": [{ "kind": "Secret", "apiVersion": "v1", "data": 1 }] });
    let snapshots = of(&[one("a", map.clone(), true)]);
    assert_eq!(snapshots[0].state, Some(map));
}

#[test]
fn what_was_not_read_is_left_out() {
    let targets = [
        named("other", "x"),
        missing("gone", "y"),
        one("a", pod("a", "1"), true),
    ];
    let names: Vec<_> = of(&targets)
        .into_iter()
        .map(|it| (it.name, it.state.is_some()))
        .collect();
    assert_eq!(names, [("gone".to_owned(), false), ("a".to_owned(), true)]);
}

#[test]
fn too_large_states_become_names_and_uids() {
    let mut large = pod("large", "1");
    large["spec"] = json!({ "text": "x".repeat(BYTES_MAX) });
    let targets = [
        one("large", large, true),
        list("small", &[pod("a", "2")], false),
    ];
    let snapshots = of(&targets);
    assert!(snapshots.iter().all(|it| it.truncated));
    assert_eq!(
        snapshots[0].state,
        Some(
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "namespace": "demo", "name": "large", "uid": "1" } })
        )
    );
    assert_eq!(snapshots[1].state.as_ref().unwrap()["kind"], "PodList");
    assert_eq!(
        snapshots[1].state.as_ref().unwrap()["items"][0]["metadata"]["uid"],
        "2"
    );
}

#[test]
fn names_and_uids_have_a_limit_too() {
    let pods: Vec<Value> = (0..10_000)
        .map(|n| pod(&format!("pod-{n}"), &format!("uid-{n}")))
        .collect();
    let snapshots = of(&[list("all", &pods, true)]);
    let size = serde_json::to_string(&snapshots).unwrap().len();
    assert!(size <= BYTES_MAX + 512, "{size}");
    let kept = snapshots[0].state.as_ref().unwrap()["items"]
        .as_array()
        .unwrap()
        .len();
    assert!((1000..10_000).contains(&kept), "{kept}");
}

#[test]
fn some_characters_take_six_bytes() {
    assert_eq!(stored_bytes(&json!({ "a": "b" })), r#"{"a":"b"}"#.len());
    assert_eq!(stored_bytes(&json!("<&>")), 20);
    assert_eq!(stored_bytes(&json!("\u{2028}")), 8);
}

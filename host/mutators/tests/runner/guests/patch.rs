//! The patch law for whole chains: random plugins, some of which fail and are ignored, on random pods, and the host's stamp.
//! `cargo xtask soak --only patch` runs a hundred times as many.

use std::sync::OnceLock;

use podloom_mutators::{Chain, Outcome};
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy, any, proptest};
use proptest::sample::select;
use serde_json::{Value, json};

use super::assembly::interpreter;
use super::script::{Action, Allocator, action, encode};
use crate::support::{chain_of, check_patch, load, plugin, pod, request};

/// Three that do what the pod's script says, each where it may, and between them one that does the same to every pod.
const PLUGINS: &str = "
- name: first
  file: guest.wasm
  failurePolicy: Ignore
  limits: { memory: 2Mi, timeout: 10s }
  allow: [/metadata/labels, '/spec/containers/*', /spec/volumes]
  read: [/metadata/annotations, /spec]
- name: good
  file: good.wasm
  allow: [/metadata/labels]
- name: second
  file: guest.wasm
  failurePolicy: Ignore
  limits: { memory: 2Mi, timeout: 10s }
  allow: [/metadata/labels, '/spec/containers/[name=new]', '/spec/containers/*/env/[name=A]', /spec/volumes/*]
  read: [/metadata/annotations, '/spec/containers/*/image']
- name: third
  file: guest.wasm
  limits: { memory: 2Mi, timeout: 10s }
  allow: [/metadata/labels/a, /spec]
  read: [/metadata/annotations]";

fn chain() -> &'static Chain {
    static CHAIN: OnceLock<Chain> = OnceLock::new();
    CHAIN.get_or_init(|| {
        let files = [("guest.wasm", interpreter()), ("good.wasm", plugin("good"))];
        let files = files
            .each_ref()
            .map(|(name, content)| (*name, content.as_slice()));
        load(PLUGINS, &files).expect("the chain loads")
    })
}

/// What else a pod may have, or not have.
fn variant() -> impl Strategy<Value = Vec<(&'static str, Value)>> {
    let metadata = select(vec![
        (
            "/metadata/managedFields",
            json!([{ "manager": "kubectl", "operation": "Apply" }]),
        ),
        ("/metadata/labels", Value::Null),
        ("/metadata/labels", json!({})),
        (
            "/spec/volumes",
            json!([{ "name": "new", "emptyDir": {} }, { "name": "old" }]),
        ),
        ("/spec/volumes", json!([])),
        ("/spec/volumes", Value::Null),
        ("/spec/containers/0/env", Value::Null),
        (
            "/spec/containers/0/env",
            json!([{ "name": "B" }, null, { "name": "A", "value": "~/" }]),
        ),
        ("/spec/containers/1/name", json!("new")),
        ("/spec/containers", json!([])),
        ("/spec/hostNetwork", json!({ "x": 1 })),
    ]);
    vec(metadata, 0..4)
}

/// The pod of the guests with a script in it, and with these places as they are told.
fn varied(script: &str, variant: &[(&str, Value)]) -> Value {
    let mut pod = super::pod(script);
    for (path, value) in variant {
        let (parent, key) = path.rsplit_once('/').expect("a path");
        if let Some(Value::Object(fields)) = pod.pointer_mut(parent) {
            fields.insert(key.to_owned(), value.clone());
        }
    }
    pod
}

fn cases() -> ProptestConfig {
    ProptestConfig {
        cases: ProptestConfig::default().cases.max(500),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_patch_does_what_the_chain_did(
        actions in vec(action(), 0..10), variant in variant(), passes_twice in any::<bool>(),
    ) {
        let mut pod = varied(&encode(Allocator::Plain, &actions), &variant);
        for _ in 0..=usize::from(passes_twice) {
            if let Ok(mutation) = chain().mutate(pod.clone(), request()) {
                check_patch(&pod, &mutation);
                pod = mutation.pod;
            }
        }
    }
}

/// An ignored plugin leaves no trace in the patch, and what comes after it is right all the same.
#[test]
fn what_was_taken_back_is_not_in_it() {
    let chain = chain_of(&[
        ("good", ""),
        ("write-then-trap", "failurePolicy: Ignore"),
        ("persists", ""),
    ]);
    let mutation = chain.mutate(pod(), request()).expect("a pod");
    assert!(matches!(mutation.runs[1].outcome, Outcome::Ignored(_)));
    check_patch(&pod(), &mutation);
    let patch: Value = serde_json::from_str(&mutation.patch().expect("a patch")).expect("JSON");
    let paths: Vec<&str> = patch
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|operation| operation["path"].as_str())
        .collect();
    assert_eq!(
        paths,
        [
            "/metadata/labels/fixture",
            "/metadata/labels/runs",
            "/metadata/annotations",
            "/metadata/annotations/podloom.dev~1mutations",
            "/metadata/annotations/podloom.dev~1chain",
        ]
    );
}

#[test]
fn the_parents_of_a_stamp_are_made() {
    let chain = load("\n  []", &[]).expect("a chain without plugins");
    for pod in [
        json!({}),
        json!({ "metadata": null }),
        json!({ "metadata": {} }),
        json!({ "metadata": { "annotations": null, "managedFields": [] } }),
        json!({ "metadata": { "annotations": {}, "managedFields": [{ "manager": "x" }] } }),
        json!({ "metadata": { "annotations": { "podloom.dev/chain": "another", "a": "b" } } }),
    ] {
        let mutation = chain.mutate(pod.clone(), request()).expect("a pod");
        check_patch(&pod, &mutation);
        // The second pass finds all as it is to be, and the managedFields that another writer has left are not touched.
        let mut stamped = mutation.pod;
        stamped["metadata"]["managedFields"] = json!([{ "manager": "x" }]);
        let again = chain.mutate(stamped, request()).expect("a pod");
        assert_eq!(again.patch().as_deref(), Some("[]"));
    }
}

/// The law itself must be able to fail.
#[test]
fn a_patch_for_another_pod_is_found_out() {
    let mutation = chain_of(&[("good", "")])
        .mutate(pod(), request())
        .expect("a pod");
    let another = std::panic::catch_unwind(|| {
        check_patch(
            &json!({ "metadata": { "labels": { "a": "b" } } }),
            &mutation,
        );
    });
    assert!(another.is_err());
}

/// Scripts come to something: a sample that only failed would show nothing.
#[test]
fn scripts_write() {
    let actions = [Action::set(1, 24), Action::set(14, 25)];
    let pod = varied(&encode(Allocator::Plain, &actions), &[]);
    let mutation = chain().mutate(pod.clone(), request()).expect("a pod");
    check_patch(&pod, &mutation);
    let writes: Vec<usize> = mutation.runs.iter().map(|run| run.writes.len()).collect();
    assert_eq!(writes, [2, 1, 0, 1], "{:#?}", mutation.runs);
}

//! The patch law for whole chains: random plugins, some of which fail and are ignored, on random pods, and the host's stamp.
//! `cargo xtask soak --only patch` runs a hundred times as many.

use std::cell::RefCell;
use std::sync::OnceLock;

use podloom_mutation::{MutatedPod, PluginOutcome, PluginRun, RejectedPod};
use podloom_mutators::Chain;
use proptest::bool::weighted;
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy, any, prop_oneof};
use proptest::sample::select;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::assembly::interpreter;
use super::script::{Allocator, GuestAction, action, encode};
use crate::support::{chain_of, check_patch, load, plugin, pod, request};

/// Three that do what a script in the pod says, each its own and where it may, and between them one that does the same to every pod.
const PLUGINS: &str = "
- name: first
  file: script.wasm
  failurePolicy: Ignore
  limits: { memory: 2Mi, timeout: 10s }
  allow: [/metadata/labels, '/spec/containers/*', /spec/volumes, /spec/tomorrow]
  read: [/metadata/annotations, /spec]
- name: good
  file: good.wasm
  allow: [/metadata/labels]
- name: second
  file: second.wasm
  failurePolicy: Ignore
  limits: { memory: 2Mi, timeout: 10s }
  allow: [/metadata/labels, '/spec/containers/[name=new]', '/spec/containers/*/env/[name=A]', /spec/volumes/*]
  read: [/metadata/annotations, '/spec/containers/*/image']
- name: third
  file: thirds.wasm
  failurePolicy: Ignore
  limits: { memory: 2Mi, timeout: 10s }
  allow: [/metadata/labels/a, /metadata/annotations, /spec]";

/// The annotations with their scripts: all as long as the one that a guest reads.
const SCRIPTS: [&str; 3] = ["script", "second", "thirds"];

/// A guest that reads another annotation.
fn guest(annotation: &str) -> Vec<u8> {
    let path = |annotation: &str| format!("/metadata/annotations/{annotation}").into_bytes();
    let (own, mut wasm) = (path("script"), interpreter());
    let at = wasm.windows(own.len()).position(|bytes| bytes == own);
    let at = at.expect("the path of its script");
    wasm[at..at + own.len()].copy_from_slice(&path(annotation));
    wasm
}

fn chain() -> &'static Chain {
    static CHAIN: OnceLock<Chain> = OnceLock::new();
    CHAIN.get_or_init(|| {
        let guests = SCRIPTS.map(|script| (format!("{script}.wasm"), guest(script)));
        let mut files: Vec<(&str, &[u8])> = guests
            .iter()
            .map(|(name, content)| (name.as_str(), content.as_slice()))
            .collect();
        let good = plugin("good");
        files.push(("good.wasm", &good));
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
        ("/metadata/annotations", Value::Null),
        ("/metadata/annotations", json!({})),
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
        (
            "/spec/tomorrow",
            json!({ "a/b~c": { "~1": null, "/": [null, -0.0, 1e300] }, "x": null }),
        ),
        ("/spec/tomorrow", json!(0.1)),
    ]);
    vec(metadata, 0..4)
}

/// What a guest does; then it may write what is taken back.
fn script() -> impl Strategy<Value = String> {
    // Most of what is random is refused.
    let path = select(vec![1, 8, 11, 13, 14, 15, 16, 30, 31, 32]);
    let value = select(vec![23, 24, 25, 33, 34, 35, 36, 37, 38, 39]);
    let write = (path, value).prop_map(|(path, value)| GuestAction::set(path, value));
    let actions = vec(prop_oneof![1 => action(), 2 => write], 0..8);
    (actions, weighted(0.4)).prop_map(|(mut actions, fails)| {
        if fails {
            actions.extend([
                GuestAction::set(1, 24),
                GuestAction::set(30, 33),
                GuestAction::trap(),
            ]);
        }
        encode(Allocator::Plain, &actions)
    })
}

/// The pod of the guests with their scripts, and with these values at these paths.
fn varied(scripts: &[String; 3], variant: &[(&str, Value)]) -> Value {
    let mut pod = super::pod("");
    for (annotation, script) in SCRIPTS.iter().zip(scripts) {
        pod["metadata"]["annotations"][annotation] = script.as_str().into();
    }
    for (path, value) in variant {
        let (parent, key) = path.rsplit_once('/').expect("a path");
        if let Some(Value::Object(fields)) = pod.pointer_mut(parent) {
            fields.insert(key.to_owned(), value.clone());
        }
    }
    pod
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: ProptestConfig::default().cases.max(500),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// What the sample of pods came to.
#[derive(Debug, Default)]
struct Sample {
    passed: usize,
    refused: usize,
    /// A plugin was ignored, and one after it did what its script said.
    rolled_back: usize,
}

impl Sample {
    fn count(&mut self, result: &Result<MutatedPod, RejectedPod>) {
        let Ok(mutation) = result else {
            self.refused += 1;
            return;
        };
        self.passed += 1;
        let is_ignored = |run: &PluginRun| matches!(run.outcome, PluginOutcome::Ignored(_));
        let after = mutation.runs.iter().skip_while(|run| !is_ignored(run));
        let writes =
            |run: &PluginRun| run.plugin != "good" && run.outcome == PluginOutcome::Mutated;
        self.rolled_back += usize::from(after.into_iter().any(writes));
    }
}

#[test]
fn a_patch_does_what_the_chain_did() {
    let scripts = [script(), script(), script()];
    let cases = (scripts, variant(), any::<bool>());
    let sample = RefCell::new(Sample::default());
    let law = |(scripts, variant, passes_twice): ([String; 3], Vec<_>, bool)| {
        let mut pod = varied(&scripts, &variant);
        for _ in 0..=usize::from(passes_twice) {
            let result = chain().mutate(pod.clone(), request());
            sample.borrow_mut().count(&result);
            if let Ok(mutation) = result {
                check_patch(&pod, &mutation);
                pod = mutation.pod;
            }
        }
        Ok(())
    };
    TestRunner::new(config())
        .run(&cases, law)
        .unwrap_or_else(|failure| panic!("{failure}"));
    // A law that is hardly tried says nothing.
    let sample = sample.into_inner();
    let all = sample.passed + sample.refused;
    assert!(sample.passed * 2 > all, "{sample:?}");
    assert!(sample.rolled_back * 20 > all, "{sample:?}");
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
    assert!(matches!(
        mutation.runs[1].outcome,
        PluginOutcome::Ignored(_)
    ));
    check_patch(&pod(), &mutation);
    let patch: Value =
        serde_json::from_str(mutation.patch.as_ref().expect("a patch")).expect("JSON");
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
        assert_eq!(again.patch.as_deref(), Some("[]"));
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
    let actions = [GuestAction::set(1, 24), GuestAction::set(14, 25)];
    let script = || encode(Allocator::Plain, &actions);
    let pod = varied(&[script(), script(), script()], &[]);
    let mutation = chain().mutate(pod.clone(), request()).expect("a pod");
    check_patch(&pod, &mutation);
    let writes: Vec<usize> = mutation.runs.iter().map(|run| run.writes.len()).collect();
    assert_eq!(writes, [2, 1, 0, 1], "{:#?}", mutation.runs);
}

use std::time::Duration;

use podloom_pod_path::{Access, Transaction, Write};
use serde_json::{Value, json};

use super::{close, open};
use crate::matching::Dimension;
use crate::run::{PluginRun, RunOutcome};

fn write() -> Write {
    let access = Access::unrestricted().into();
    let mut pod = Transaction::begin(json!({}), access, [].into());
    pod.set("/metadata/labels/x", "\"y\"".to_owned())
        .expect("a label");
    let (_, writes) = pod.commit();
    writes.into_iter().next().expect("a write")
}

fn run(plugin: &str, outcome: RunOutcome, writes: usize) -> PluginRun {
    PluginRun {
        plugin: plugin.to_owned(),
        version: "1.0.0".to_owned(),
        sha256: "00".to_owned(),
        outcome,
        writes: vec![write(); writes],
        refused_writes: 0,
        reads: 0,
        refused_reads: 0,
        notes: Vec::new(),
        duration: Duration::ZERO,
        memory: 0,
    }
}

#[track_caller]
fn stamp(pod: &mut Value, chain: &str, runs: &[PluginRun]) -> String {
    let before = open(pod, chain).expect("a pod");
    close(pod, chain, &before, runs).expect("a pod");
    pod["metadata"]["annotations"]["podloom.dev/mutations"]
        .as_str()
        .expect("a stamp")
        .to_owned()
}

fn entry(name: &str, writes: usize) -> String {
    format!("{{\"name\":\"{name}\",\"version\":\"1.0.0\",\"sha256\":\"00\",\"writes\":{writes}}}")
}

#[test]
fn plugins_that_ran_are_listed() {
    let mut pod = json!({});
    let ignored = RunOutcome::Ignored(crate::sandbox::CallFailure::StackExhausted);
    let runs = [
        run("a", RunOutcome::Mutated, 2),
        run("b", RunOutcome::Unchanged, 0),
        run("c", RunOutcome::Skipped(Dimension::Kinds), 0),
        run("d", ignored, 0),
    ];
    assert_eq!(
        stamp(&mut pod, "one", &runs),
        format!("[{},{}]", entry("a", 2), entry("b", 0))
    );
    assert_eq!(pod["metadata"]["annotations"]["podloom.dev/chain"], "one");
}

#[test]
fn a_second_pass_that_writes_nothing_changes_no_byte() {
    let mut pod = json!({ "metadata": { "annotations": null } });
    stamp(
        &mut pod,
        "one",
        &[
            run("a", RunOutcome::Mutated, 2),
            run("b", RunOutcome::Mutated, 1),
        ],
    );
    let first = pod.to_string();
    let ignored = RunOutcome::Ignored(crate::sandbox::CallFailure::StackExhausted);
    stamp(
        &mut pod,
        "one",
        &[run("a", RunOutcome::Unchanged, 0), run("b", ignored, 0)],
    );
    assert_eq!(pod.to_string(), first);
}

#[test]
fn a_plugin_that_is_skipped_is_not_listed_whatever_the_stamp_said() {
    let forged = format!("[{},{}]", entry("a", 2), entry("b", 7));
    let annotations = json!({ "podloom.dev/chain": "one", "podloom.dev/mutations": forged });
    let mut pod = json!({ "metadata": { "annotations": annotations } });
    let runs = [
        run("a", RunOutcome::Unchanged, 0),
        run("b", RunOutcome::Skipped(Dimension::Selector), 0),
    ];
    assert_eq!(
        stamp(&mut pod, "one", &runs),
        format!("[{}]", entry("a", 2))
    );
}

#[test]
fn writes_of_passes_through_the_same_chain_add_up() {
    let mut pod = json!({});
    stamp(&mut pod, "one", &[run("a", RunOutcome::Mutated, 2)]);
    assert_eq!(
        stamp(&mut pod, "one", &[run("a", RunOutcome::Mutated, 3)]),
        format!("[{}]", entry("a", 5))
    );
    assert_eq!(
        stamp(&mut pod, "other", &[run("a", RunOutcome::Mutated, 1)]),
        format!("[{}]", entry("a", 1))
    );
}

#[test]
fn a_stamp_that_someone_else_wrote_does_no_harm() {
    for forged in [
        "",
        "[",
        "[{}]",
        "{\"name\":1}",
        "[{\"name\":\"z\",\"version\":\"\",\"sha256\":\"\",\"writes\":7}]",
    ] {
        let annotations = json!({ "podloom.dev/chain": "one", "podloom.dev/mutations": forged });
        let mut pod = json!({ "metadata": { "annotations": annotations } });
        assert_eq!(
            stamp(&mut pod, "one", &[run("a", RunOutcome::Mutated, 1)]),
            format!("[{}]", entry("a", 1))
        );
    }
}

#[test]
fn an_empty_chain_stamps_too() {
    assert_eq!(stamp(&mut json!({}), "none", &[]), "[]");
}

#[test]
fn json_that_is_not_a_pod_is_refused() {
    let check = |pod: Value, expected: &str| {
        assert_eq!(
            open(&mut pod.clone(), "one").expect_err("a refusal"),
            expected
        )
    };
    check(json!([]), "it is not an object");
    check(json!({ "metadata": 1 }), "its metadata is not an object");
    check(
        json!({ "metadata": { "annotations": [] } }),
        "its annotations are not an object",
    );
}

#[test]
fn managed_fields_are_dropped() {
    let mut pod = json!({ "metadata": { "managedFields": [{}], "name": "x" } });
    open(&mut pod, "one").expect("a pod");
    assert_eq!(pod, json!({ "metadata": { "name": "x" } }));
}

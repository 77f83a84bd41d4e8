use podloom_mutation::{CallFailure, Dimension, PluginOutcome, PluginRun};
use podloom_pod_path::{Access, Transaction, Write};
use serde_json::{Value, json};

use super::{close, open};

fn write() -> Write {
    write_to("/metadata/labels/x")
}

fn write_to(path: &str) -> Write {
    let access = Access::unrestricted().into();
    let mut pod = Transaction::begin(json!({}), access, [].into());
    let value = if path.contains("/labels/") {
        "\"y\""
    } else {
        "{}"
    };
    pod.set(path, value.to_owned()).expect("a write");
    let (_, writes) = pod.commit();
    writes.into_iter().next().expect("a write")
}

/// A run that wrote to these paths.
fn run_on(plugin: &str, paths: &[&str]) -> PluginRun {
    PluginRun {
        writes: paths.iter().map(|path| write_to(path)).collect(),
        ..run(plugin, PluginOutcome::Mutated, 0)
    }
}

fn run(plugin: &str, outcome: PluginOutcome, writes: usize) -> PluginRun {
    PluginRun {
        plugin: plugin.to_owned(),
        version: "1.0.0".to_owned(),
        sha256: "00".to_owned(),
        outcome,
        writes: vec![write(); writes],
        ..PluginRun::default()
    }
}

#[track_caller]
fn stamp(pod: &mut Value, chain: &str, runs: &[PluginRun]) -> String {
    let before = open(pod, chain).expect("a pod");
    close(pod, chain, &before, runs, None).expect("a pod");
    pod["metadata"]["annotations"]["podloom.dev/mutations"]
        .as_str()
        .expect("a stamp")
        .to_owned()
}

fn entry(name: &str, writes: usize) -> String {
    let paths = match writes {
        0 => "",
        _ => ",\"paths\":[\"/metadata/labels/x\"]",
    };
    format!(
        "{{\"name\":\"{name}\",\"version\":\"1.0.0\",\"sha256\":\"00\",\"writes\":{writes}{paths}}}"
    )
}

/// The paths of each plugin in a stamp, and whether they were cut.
fn listed(stamp: &str) -> Vec<(Vec<String>, bool)> {
    let entries: Vec<super::MutationEntry> = serde_json::from_str(stamp).expect("a stamp");
    let listed = entries.into_iter().map(|entry| (entry.paths, entry.cut));
    listed.collect()
}

#[test]
fn paths_are_sorted_and_those_below_another_are_left_out() {
    let paths = [
        "/spec/volumes/[name=tmp]/emptyDir",
        "/metadata/labels/b",
        "/spec/volumes/[name=tmp]",
        "/metadata/labels/a",
        "/metadata/labels/b-c",
        "/metadata/labels/b",
    ];
    let run = PluginRun {
        writes: paths
            .iter()
            .map(|path| Write {
                path: (*path).to_owned(),
                ..write()
            })
            .collect(),
        ..run("a", PluginOutcome::Mutated, 0)
    };
    let stamp = stamp(&mut json!({}), "one", &[run]);
    let expected = [
        "/metadata/labels/a",
        "/metadata/labels/b",
        "/metadata/labels/b-c",
        "/spec/volumes/[name=tmp]",
    ];
    assert_eq!(
        listed(&stamp),
        [(expected.map(str::to_owned).to_vec(), false)]
    );
}

#[test]
fn paths_of_passes_through_the_same_chain_are_joined() {
    let mut pod = json!({});
    stamp(&mut pod, "one", &[run_on("a", &["/metadata/labels/b"])]);
    let both = stamp(&mut pod, "one", &[run_on("a", &["/metadata/labels/a"])]);
    let expected = ["/metadata/labels/a", "/metadata/labels/b"];
    assert_eq!(
        listed(&both),
        [(expected.map(str::to_owned).to_vec(), false)]
    );
    let other = stamp(&mut pod, "other", &[run_on("a", &["/metadata/labels/c"])]);
    assert_eq!(
        listed(&other),
        [(vec!["/metadata/labels/c".to_owned()], false)]
    );
}

#[test]
fn paths_end_at_4_kib_and_another_pass_changes_no_byte() {
    let long: Vec<String> = (0..60)
        .map(|number| format!("/metadata/labels/{number:063}"))
        .collect();
    let long: Vec<&str> = long.iter().map(String::as_str).collect();
    let mut pod = json!({});
    let first = stamp(
        &mut pod,
        "one",
        &[
            run_on("a", &long),
            run_on("b", &["/metadata/labels/x"]),
            run("c", PluginOutcome::Unchanged, 0),
        ],
    );
    let bytes: usize = listed(&first)
        .iter()
        .flat_map(|(paths, _)| paths)
        .map(|path| path.len() + 3)
        .sum();
    assert!(bytes <= 4096 && bytes > 3900, "{bytes}");
    let cut: Vec<bool> = listed(&first).iter().map(|(_, cut)| *cut).collect();
    assert_eq!(cut, [true, true, false]);
    let unchanged = ["a", "b", "c"].map(|name| run(name, PluginOutcome::Unchanged, 0));
    assert_eq!(stamp(&mut pod, "one", &unchanged), first);
}

#[test]
fn plugins_that_ran_are_listed() {
    let mut pod = json!({});
    let ignored = PluginOutcome::Ignored(CallFailure::StackExhausted);
    let runs = [
        run("a", PluginOutcome::Mutated, 2),
        run("b", PluginOutcome::Unchanged, 0),
        run("c", PluginOutcome::Skipped(Dimension::Kinds), 0),
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
            run("a", PluginOutcome::Mutated, 2),
            run("b", PluginOutcome::Mutated, 1),
        ],
    );
    let first = pod.to_string();
    let ignored = PluginOutcome::Ignored(CallFailure::StackExhausted);
    stamp(
        &mut pod,
        "one",
        &[run("a", PluginOutcome::Unchanged, 0), run("b", ignored, 0)],
    );
    assert_eq!(pod.to_string(), first);
}

#[test]
fn a_plugin_that_is_skipped_is_not_listed_whatever_the_stamp_said() {
    let forged = format!("[{},{}]", entry("a", 2), entry("b", 7));
    let annotations = json!({ "podloom.dev/chain": "one", "podloom.dev/mutations": forged });
    let mut pod = json!({ "metadata": { "annotations": annotations } });
    let runs = [
        run("a", PluginOutcome::Unchanged, 0),
        run("b", PluginOutcome::Skipped(Dimension::Selector), 0),
    ];
    assert_eq!(
        stamp(&mut pod, "one", &runs),
        format!("[{}]", entry("a", 2))
    );
}

#[test]
fn writes_of_passes_through_the_same_chain_add_up() {
    let mut pod = json!({});
    stamp(&mut pod, "one", &[run("a", PluginOutcome::Mutated, 2)]);
    assert_eq!(
        stamp(&mut pod, "one", &[run("a", PluginOutcome::Mutated, 3)]),
        format!("[{}]", entry("a", 5))
    );
    assert_eq!(
        stamp(&mut pod, "other", &[run("a", PluginOutcome::Mutated, 1)]),
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
            stamp(&mut pod, "one", &[run("a", PluginOutcome::Mutated, 1)]),
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

use std::time::Instant;

use podloom_mutation::{
    CallFailure, MutatedPod, Note, PluginOutcome, PluginRun, PodRejection, PodRequest, RejectedPod,
    Write,
};
use serde_json::json;

use super::{PATHS_BYTES, PODS, RecentPod, RecentPods};

fn run(plugin: &str, outcome: PluginOutcome, paths: &[String]) -> PluginRun {
    let write = |path: &String| Write {
        path: path.clone(),
        old: None,
        new: None,
    };
    PluginRun {
        plugin: plugin.to_owned(),
        version: "1.0.0".to_owned(),
        outcome,
        writes: paths.iter().map(write).collect(),
        refused_writes: 2,
        notes: vec![Note::normal("hunter2")],
        ..PluginRun::default()
    }
}

fn mutated(runs: Vec<PluginRun>) -> Result<MutatedPod, RejectedPod> {
    Ok(MutatedPod {
        runs,
        ..MutatedPod::untouched(json!({ "spec": "hunter2" }))
    })
}

fn added(result: Option<&Result<MutatedPod, RejectedPod>>) -> RecentPod {
    let pods = RecentPods::default();
    let pod = RecentPod::of(&PodRequest::default());
    pods.add(pod, Instant::now(), result);
    pods.latest().remove(0)
}

#[test]
fn the_latest_pods_are_remembered() {
    let pods = RecentPods::default();
    for number in 0..PODS + 3 {
        let request = PodRequest {
            name: format!("p-{number}"),
            ..PodRequest::default()
        };
        let pod = RecentPod::of(&request);
        pods.add(pod, Instant::now(), Some(&mutated(Vec::new())));
    }
    let latest = pods.latest();
    assert_eq!(latest.len(), PODS);
    assert_eq!((latest[0].number, latest[0].name.as_str()), (53, "p-52"));
    assert_eq!((latest[49].number, latest[49].name.as_str()), (4, "p-3"));
}

#[test]
fn each_path_is_shown_once_and_all_writes_count() {
    let paths = ["/a", "/b", "/a", "/a"].map(str::to_owned);
    let pod = added(Some(&mutated(vec![run(
        "labels",
        PluginOutcome::Mutated,
        &paths,
    )])));
    assert_eq!(pod.verdict, "allowed");
    let labels = &pod.runs[0];
    assert_eq!(labels.paths, ["/a", "/b"]);
    assert_eq!(
        (labels.outcome, labels.writes, labels.refused_writes),
        ("mutated", 4, 2)
    );
    assert!(!format!("{pod:?}").contains("hunter2"));
}

#[test]
fn the_paths_of_one_pod_take_bounded_memory() {
    let long: Vec<String> = (0..100)
        .map(|it| format!("/{it}/{}", "x".repeat(10_000)))
        .collect();
    let short: Vec<String> = (0..5000).map(|it| format!("/{it}")).collect();
    let runs = vec![
        run("short", PluginOutcome::Mutated, &["/spec".to_owned()]),
        run("long", PluginOutcome::Mutated, &long),
        run("many", PluginOutcome::Mutated, &short),
    ];
    let pod = added(Some(&mutated(runs)));
    let paths = pod.runs.iter().flat_map(|run| &run.paths);
    let bytes: usize = paths.map(String::len).sum();
    assert!(bytes <= PATHS_BYTES, "{bytes}");
    let counts: Vec<usize> = pod.runs.iter().map(|run| run.writes).collect();
    assert_eq!(counts, [1, 100, 5000]);
    assert_eq!(pod.runs[0].paths, ["/spec"]);
    assert!(pod.runs[1].paths[0].len() < 300 && pod.runs[1].paths[0].ends_with("..."));
}

#[test]
fn a_rejected_pod_shows_who_rejected_it_and_no_reason() {
    let secret = || "hunter2".to_owned();
    for (rejection, verdict) in [
        (PodRejection::Denied(secret()), "denied"),
        (PodRejection::Broken(secret()), "broken"),
        (PodRejection::Overdue(secret()), "overdue"),
    ] {
        let runs = vec![
            run(
                "first",
                PluginOutcome::Ignored(CallFailure::Reported(secret())),
                &[],
            ),
            run("second", PluginOutcome::Denied(secret()), &[]),
        ];
        let pod = added(Some(&Err(RejectedPod { rejection, runs })));
        assert_eq!(pod.verdict, verdict);
        let outcomes: Vec<&str> = pod.runs.iter().map(|run| run.outcome).collect();
        assert_eq!(outcomes, ["ignored", "denied"]);
        assert!(!format!("{pod:?}").contains("hunter2"));
    }
    assert_eq!(added(None).verdict, "broken", "the chain panicked");
}

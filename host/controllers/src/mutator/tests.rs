use serde_json::json;

use super::{Change, MutatedPod, Note, PluginOutcome, PluginRun, PodRejection, RejectedPod, Write};

/// What is logged by mistake must not be a secret.
#[test]
fn values_are_not_shown() {
    let run = PluginRun {
        plugin: "labels".to_owned(),
        version: "1.0.0".to_owned(),
        outcome: PluginOutcome::Mutated,
        writes: vec![Write {
            path: "/spec/x".to_owned(),
            change: Some(Change {
                old: Some(json!("hunter1")),
                new: Some("\"hunter2\"".to_owned()),
            }),
        }],
        refused_writes: 0,
        refused_reads: 0,
        notes: vec![Note::normal("hunter3")],
    };
    let write = format!("{:?}", run.writes);
    let mutated = MutatedPod {
        pod: json!({ "spec": "hunter4" }),
        patch: Some("hunter5".to_owned()),
        chain: None,
        runs: vec![run.clone()],
    };
    let refused = RejectedPod {
        rejection: PodRejection::Denied("it may not be".to_owned()),
        runs: vec![run],
    };
    for text in [write, format!("{mutated:?}"), format!("{refused:?}")] {
        assert!(!text.contains("hunter"), "{text}");
        assert!(text.contains("/spec/x"), "{text}");
    }
}

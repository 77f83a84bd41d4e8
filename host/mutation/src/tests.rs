use std::time::Duration;

use podloom_pod_path::LAST_APPLIED;
use serde_json::json;

use super::{
    CallFailure, MutatedPod, Note, PluginOutcome, PluginRun, PodRejection, PodRequest, RejectedPod,
    Write, show_bytes, show_duration,
};

/// What is logged by mistake must not be a secret.
#[test]
fn values_are_not_shown() {
    let run = PluginRun {
        outcome: PluginOutcome::Mutated,
        writes: vec![Write {
            path: "/spec/x".to_owned(),
            old: Some(json!("hunter1")),
            new: Some("\"hunter2\"".to_owned()),
        }],
        notes: vec![Note::normal("hunter3")],
        ..PluginRun::default()
    };
    let mutated = MutatedPod {
        pod: json!({ "spec": "hunter4" }),
        patch: Some("hunter5".to_owned()),
        chain: None,
        runs: vec![run.clone()],
    };
    let refused = RejectedPod {
        rejection: PodRejection::Denied("not allowed".to_owned()),
        runs: vec![run],
    };
    for text in [format!("{mutated:?}"), format!("{refused:?}")] {
        assert!(!text.contains("hunter"), "{text}");
        assert!(text.contains("/spec/x"), "{text}");
    }
}

#[track_caller]
fn check(outcome: PluginOutcome, expected: Option<&PodRejection>, shown: &str) {
    let run = PluginRun {
        plugin: "hardening".to_owned(),
        outcome,
        ..PluginRun::default()
    };
    assert_eq!(run.rejection().as_ref(), expected);
    let rejected = RejectedPod {
        rejection: PodRejection::Broken("no plugin is to blame".to_owned()),
        runs: vec![run],
    };
    assert_eq!(rejected.to_string(), shown);
}

#[test]
fn the_last_run_says_why_a_pod_is_rejected() {
    check(
        PluginOutcome::Denied("container browser runs as root".to_owned()),
        Some(&PodRejection::Denied(
            "hardening: container browser runs as root".to_owned(),
        )),
        "plugin hardening denies the pod: container browser runs as root",
    );
    for (failure, of) in [
        (
            CallFailure::StackExhausted,
            PodRejection::Broken as fn(String) -> PodRejection,
        ),
        (CallFailure::Overdue, PodRejection::Overdue),
        (CallFailure::NamespaceUnread, PodRejection::Unread),
    ] {
        check(
            PluginOutcome::Failed(failure.clone()),
            Some(&of(format!("hardening: {failure}"))),
            &format!("plugin hardening failed: {failure}"),
        );
    }
    let ignored = PluginOutcome::Ignored(CallFailure::StackExhausted);
    check(ignored, None, "no plugin is to blame");
}

#[test]
fn plugins_do_not_see_the_annotation_with_the_applied_object() {
    let annotations = [("team", "web"), (LAST_APPLIED, "{}")];
    let annotations = annotations.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let request = PodRequest {
        annotations: annotations.clone().into(),
        namespace_annotations: annotations.into(),
        ..PodRequest::default()
    };
    assert_eq!(request.annotation("team"), Some("web"));
    assert_eq!(request.namespace_annotation("team"), Some("web"));
    assert_eq!(request.annotation(LAST_APPLIED), None);
    assert_eq!(request.namespace_annotation(LAST_APPLIED), None);
}

#[test]
fn sizes_and_times_are_shown_for_people() {
    let bytes = |bytes: usize, expected: &str| assert_eq!(show_bytes(bytes), expected);
    bytes(0, "0 bytes");
    bytes(1023, "1023 bytes");
    bytes(1536, "1.5 KiB");
    bytes(16 << 20, "16 MiB");
    bytes(3 << 30, "3 GiB");
    let time = |millis: u64, expected: &str| {
        assert_eq!(show_duration(Duration::from_millis(millis)), expected)
    };
    time(50, "50 ms");
    time(1000, "1 s");
    time(1500, "1500 ms");
}

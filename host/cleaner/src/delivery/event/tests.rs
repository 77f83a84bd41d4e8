use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use podloom_api::{DeletionPhase, HelmStep};
use serde_json::{Value, json};

use super::*;

fn cleaner() -> ObjectMeta {
    ObjectMeta {
        name: Some("shop".to_owned()),
        namespace: Some("demo".to_owned()),
        uid: Some("6c5e4f1d".to_owned()),
        ..ObjectMeta::default()
    }
}

fn time(text: &str) -> MicroTime {
    MicroTime(text.parse().unwrap())
}

fn status() -> CleanerStatus {
    CleanerStatus {
        evaluation_time: Some(time("2026-01-01T10:00:00.123456Z")),
        targets: Some(vec![TargetSnapshot {
            name: "web".to_owned(),
            delete: true,
            include_when_evaluating: true,
            state: Some(json!({ "kind": "Pod", "metadata": { "name": "web" } })),
            truncated: false,
        }]),
        ..CleanerStatus::default()
    }
}

fn object(group: &str, namespace: &str, outcome: Option<ObjectOutcome>) -> PlannedObject {
    PlannedObject {
        target: "web".to_owned(),
        group: group.to_owned(),
        version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        resource: "pods".to_owned(),
        namespace: namespace.to_owned(),
        name: "web".to_owned(),
        uid: "pod".to_owned(),
        outcome,
        message: (outcome == Some(ObjectOutcome::Skipped)).then(|| "it is not ours".to_owned()),
    }
}

fn progress(objects: Vec<PlannedObject>, helm: Option<HelmProgress>) -> DeletionProgress {
    DeletionProgress {
        phase: DeletionPhase::Event,
        phase_started_at: time("2026-01-01T10:00:01Z"),
        objects,
        helm,
        event: None,
    }
}

fn body(event: &CloudEvent) -> Value {
    serde_json::from_slice(&event.body).unwrap()
}

fn about(progress: &DeletionProgress) -> CloudEvent {
    CloudEvent::about(&cleaner(), &status(), progress).unwrap()
}

#[test]
fn attributes_are_headers() {
    let event = about(&progress(Vec::new(), None));
    let headers: Vec<_> = event
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
        .collect();
    let expected = [
        ("content-type", "application/json"),
        ("ce-specversion", "1.0"),
        ("ce-id", "6c5e4f1d"),
        ("ce-source", "cleaner.vtex.dev/controller"),
        ("ce-type", "dev.vtex.cleaner.deleted"),
        ("ce-subject", "demo/shop"),
        ("ce-time", "2026-01-01T10:00:00.123456Z"),
    ];
    assert_eq!(headers, expected);
}

#[test]
fn the_body_says_what_was_deleted() {
    let helm = HelmProgress {
        release: "shop".to_owned(),
        step: HelmStep::Records,
        revision: Some(3),
        uid: None,
        hooks_done: 0,
        objects_done: 0,
        objects_failed: 0,
        hook: None,
        kept: Some(vec!["PersistentVolumeClaim/data".to_owned()]),
        skipped: None,
        message: None,
    };
    let objects = vec![
        object("", "demo", Some(ObjectOutcome::Accepted)),
        object("apps", "", Some(ObjectOutcome::Skipped)),
        object("", "demo", None),
    ];
    let accepted = json!({
        "target": "web", "apiVersion": "v1", "kind": "Pod", "namespace": "demo", "name": "web", "uid": "pod", "outcome": "Accepted",
    });
    let skipped = json!({
        "target": "web", "apiVersion": "apps/v1", "kind": "Pod", "name": "web", "uid": "pod", "outcome": "Skipped",
        "message": "it is not ours",
    });
    let unknown = json!({
        "target": "web", "apiVersion": "v1", "kind": "Pod", "namespace": "demo", "name": "web", "uid": "pod",
    });
    let expected = json!({
        "name": "shop",
        "namespace": "demo",
        "uid": "6c5e4f1d",
        "targets": [{
            "name": "web",
            "delete": true,
            "includeWhenEvaluating": true,
            "state": { "kind": "Pod", "metadata": { "name": "web" } },
        }],
        "deleted": [accepted, skipped, unknown],
        "helm": { "release": "shop", "revision": 3, "kept": ["PersistentVolumeClaim/data"], "skipped": [] },
    });
    assert_eq!(body(&about(&progress(objects, Some(helm)))), expected);
}

#[test]
fn without_targets_and_release_the_body_says_so() {
    let progress = progress(Vec::new(), None);
    let event = CloudEvent::about(&cleaner(), &CleanerStatus::default(), &progress).unwrap();
    assert_eq!(event.headers.get("ce-time"), None);
    let body = body(&event);
    assert_eq!(body["targets"], json!([]));
    assert_eq!(body["deleted"], json!([]));
    assert_eq!(body["helm"], Value::Null);
}

/// What is sent twice must be the same, or a sink cannot tell.
#[test]
fn each_attempt_has_the_same_event() {
    let progress = progress(vec![object("", "demo", Some(ObjectOutcome::Gone))], None);
    assert_eq!(about(&progress), about(&progress));
}

#[test]
fn values_of_headers_are_encoded() {
    // The examples of the HTTP binding of CloudEvents, and more.
    for (value, expected) in [
        ("Euro € 😀", "Euro%20%E2%82%AC%20%F0%9F%98%80"),
        ("demo/shop", "demo/shop"),
        ("100%", "100%25"),
        ("\"quoted\"", "%22quoted%22"),
        ("a\r\nb\t\u{7f}", "a%0D%0Ab%09%7F"),
        (
            "!#$&'()*+,-./:;<=>?@[\\]^_`{|}~",
            "!#$&'()*+,-./:;<=>?@[\\]^_`{|}~",
        ),
        ("", ""),
    ] {
        assert_eq!(encoded(value), expected);
    }
}

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use podloom_api::{CleanerSpec, DeletionPhase, DeletionProgress, PlannedObject};
use serde_json::{Value, json};

use super::super::Rules;

fn spec() -> CleanerSpec {
    serde_json::from_value(json!({ "ttl": "never", "targets": [
        { "name": "a", "delete": true, "reference": { "apiGroup": "apps", "version": "v1", "kind": "deployment", "name": "a" } },
        { "name": "b", "delete": true, "reference": { "apiVersion": "v1", "kind": "Pod", "name": "b" } },
        { "name": "all", "delete": true, "reference": { "apiVersion": "v1", "kind": "pod", "labelSelector": {
            "matchLabels": { "app": "x" }, "matchExpressions": [{ "key": "keep", "operator": "DoesNotExist" }] } } },
        { "name": "bad", "delete": true, "reference": { "apiVersion": "v1", "kind": "Pod", "matchLabels": { "app": "x,y" } } },
        { "name": "empty", "delete": true, "reference": { "apiVersion": "v1", "kind": "Pod", "matchLabels": {} } },
        { "name": "c", "delete": false, "reference": { "version": "v1", "kind": "Secret", "name": "c" } },
    ] }))
    .unwrap()
}

#[track_caller]
fn check(group: &str, kind: &str, namespace: &str, expected: Option<&str>) {
    let object = PlannedObject {
        group: group.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        ..PlannedObject::default()
    };
    let rules = Rules::of(Some(&spec()));
    assert_eq!(rules.objection(&object, "demo"), expected);
}

const OTHER_KIND: Option<&str> = Some("no target of the spec that is deleted has its kind");

#[test]
fn kinds_that_targets_name_are_deleted() {
    check("apps", "Deployment", "demo", None);
    check("", "Pod", "demo", None);
}

#[test]
fn other_kinds_and_namespaces_are_not() {
    check("", "Secret", "demo", OTHER_KIND);
    check("", "Deployment", "demo", OTHER_KIND);
    check("batch", "Pod", "demo", OTHER_KIND);
    check("", "Pod", "other", Some("it is in another namespace"));
}

/// The spec above cannot be used: its TTL is no duration.
#[test]
fn what_can_be_read_of_a_broken_spec_counts() {
    let rules = Rules::of(Some(&spec()));
    assert_eq!(rules.timeout, Duration::from_secs(600));
    let nothing = Rules::of(None);
    let pod = PlannedObject {
        kind: "Pod".to_owned(),
        namespace: "demo".to_owned(),
        ..PlannedObject::default()
    };
    assert_eq!(nothing.objection(&pod, "demo"), OTHER_KIND);
}

#[track_caller]
fn check_found(name: &str, labels: &Value, annotations: &Value, expected: Option<&str>) {
    let object = PlannedObject {
        kind: "Pod".to_owned(),
        ..PlannedObject::default()
    };
    let found =
        json!({ "metadata": { "name": name, "labels": labels, "annotations": annotations } });
    let rules = Rules::of(Some(&spec()));
    let objection = rules.objection_to_found(&object, &found);
    assert_eq!(objection.as_deref(), expected, "{name} {labels}");
}

#[test]
fn only_what_a_target_selects_and_no_annotation_protects_is_deleted() {
    let (none, x) = (Value::Null, json!({ "app": "x" }));
    let unselected = Some("no target of the spec that is deleted selects it");
    check_found("b", &none, &none, None);
    check_found("a", &none, &none, unselected);
    check_found("a", &x, &none, None);
    check_found("a", &json!({ "app": "y" }), &none, unselected);
    check_found("a", &json!({ "app": "x,y" }), &none, unselected);
    check_found("a", &json!({ "app": "x", "keep": "" }), &none, unselected);
    let protect = json!({ "cleaner.vtex.dev/protect": "true" });
    let protected = Some("it is annotated cleaner.vtex.dev/protect: \"true\"");
    check_found("a", &x, &protect, protected);
}

#[track_caller]
fn check_all(more: &Value, count: usize, expected: Option<&str>) {
    let mut spec = json!(spec());
    json_patch::merge(&mut spec, more);
    let rules = Rules::of(Some(&serde_json::from_value(spec).unwrap()));
    let progress = DeletionProgress {
        phase: DeletionPhase::Targets,
        phase_started_at: MicroTime(jiff::Timestamp::UNIX_EPOCH),
        objects: vec![PlannedObject::default(); count],
        helm: None,
        event: None,
    };
    assert_eq!(rules.objection_to_all(&progress).as_deref(), expected);
}

#[test]
fn more_than_the_spec_allows_and_a_dry_run_delete_nothing() {
    check_all(&json!({}), 100, None);
    let too_many = "the status lists 101 objects, more than spec.deletion.maxObjects allows: 100";
    check_all(&json!({}), 101, Some(too_many));
    check_all(&json!({ "deletion": { "maxObjects": 101 } }), 101, None);
    check_all(&json!({ "dryRun": true }), 1, Some("spec.dryRun is true"));
}

#[test]
fn a_phase_is_late_after_ten_minutes_unless_the_spec_says_otherwise() {
    let spec: CleanerSpec = serde_json::from_value(json!({ "ttl": "1d" })).unwrap();
    for spec in [Some(&spec), None] {
        assert_eq!(Rules::of(spec).timeout, Duration::from_secs(600));
    }
}

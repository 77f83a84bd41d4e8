use std::time::Duration;

use podloom_api::{CleanerSpec, PlannedObject};
use serde_json::json;

use super::Rules;

fn spec() -> CleanerSpec {
    serde_json::from_value(json!({ "ttl": "never", "targets": [
        { "name": "a", "delete": true, "reference": { "apiGroup": "apps", "version": "v1", "kind": "deployment", "name": "a" } },
        { "name": "b", "delete": true, "reference": { "apiVersion": "v1", "kind": "Pod", "name": "b" } },
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

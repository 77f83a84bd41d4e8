use serde_json::{Value, json};

use super::{check_columns, nodes, schema};
use crate::names::cleaner::{GROUP, VERSION};
use crate::{Cleaner, CleanerSpec, CleanerStatus, cleaner_crd, duration, is_variable_name};

#[test]
fn columns_say_what_a_cleaner_waits_for() {
    let ready = ".status.conditions[?(@.type==\"Ready\")].reason";
    check_columns(
        &cleaner_crd(),
        &[
            ("TTL", "string", ".spec.ttl", None),
            ("Status", "string", ready, None),
            // A date in the future would be shown as invalid.
            ("Next", "string", ".status.nextScheduledEvaluation", None),
            ("Age", "date", ".metadata.creationTimestamp", None),
        ],
    );
}

#[test]
fn the_kind_has_the_names_of_the_proposal() {
    let crd = cleaner_crd();
    let version = &crd.spec.versions[0];
    let has_status = version.subresources.as_ref().unwrap().status.is_some();
    assert!(version.served && version.storage && has_status);
    assert_eq!(
        json!([
            crd.metadata.name,
            crd.spec.group,
            version.name,
            crd.spec.scope,
            crd.spec.names.kind,
            crd.spec.names.short_names,
        ]),
        json!([
            "cleaners.cleaner.vtex.dev",
            GROUP,
            VERSION,
            "Namespaced",
            "Cleaner",
            ["clnr"]
        ]),
    );
}

/// The schema of a field of the spec.
fn field(pointer: &str) -> Value {
    let schema = schema(&cleaner_crd());
    let mut found = Vec::new();
    nodes("", &schema["properties"]["spec"], &mut found);
    let node = found.into_iter().find(|(path, _)| path == pointer);
    node.unwrap_or_else(|| panic!("{pointer} is not in the schema"))
        .1
        .clone()
}

#[test]
fn what_is_not_given_has_the_value_that_the_definition_says() {
    let read: CleanerSpec = serde_json::from_value(json!({ "ttl": "1h" })).unwrap();
    let written = serde_json::to_value(&read).unwrap();
    for name in ["targets", "conditions", "delivery", "deletion", "dryRun"] {
        assert_eq!(
            field(&format!(".{name}"))["default"],
            written[name],
            "{name}"
        );
    }
    assert_eq!(
        written,
        json!({
            "ttl": "1h",
            "targets": [],
            "conditions": [],
            "delivery": { "policy": "Block", "deadline": "1h" },
            "deletion": {
                "propagationPolicy": "Background",
                "maxObjects": 100,
                "timeout": "10m",
                "waitForGone": false,
            },
            "dryRun": false,
        }),
    );
    let full = json!({
        "ttl": "1h",
        "retry": {},
        "helm": { "release": "r" },
        "targets": [{ "name": "t", "reference": { "kind": "Pod", "version": "v1", "name": "p" } }],
        "delivery": {},
        "deletion": {},
    });
    let read: CleanerSpec = serde_json::from_value(full).unwrap();
    let written = serde_json::to_value(&read).unwrap();
    for (parent, pointer) in [
        (".retry", "/retry"),
        (".helm", "/helm"),
        (".targets[]", "/targets/0"),
        (".delivery", "/delivery"),
        (".deletion", "/deletion"),
    ] {
        let properties = field(parent)["properties"].clone();
        for (name, property) in properties.as_object().unwrap() {
            if let Some(default) = property.get("default") {
                assert_eq!(*default, written.pointer(pointer).unwrap()[name], "{name}");
            }
        }
    }
    assert_eq!(field(".retry.period")["default"], "5m");
    assert_eq!(field(".helm.hookTimeout")["default"], "5m");
}

/// A Cleaner without `retry` differs from one with the default, which the webhook warns about.
#[test]
fn retry_has_no_default() {
    assert_eq!(field(".retry").get("default"), None);
}

#[test]
fn durations_have_one_pattern_and_defaults_that_can_be_parsed() {
    for path in [
        ".ttl",
        ".retry.period",
        ".helm.hookTimeout",
        ".delivery.deadline",
        ".deletion.timeout",
    ] {
        let node = field(path);
        assert_eq!(node["type"], "string", "{path}");
        assert_eq!(node["pattern"], duration::PATTERN, "{path}");
        assert_eq!(node["maxLength"], duration::CHARACTERS, "{path}");
        assert_eq!(node.get("format"), None, "{path}");
        if let Some(default) = node.get("default") {
            duration::parse(default.as_str().unwrap()).unwrap();
        }
    }
}

#[test]
fn the_schema_and_the_operator_reserve_the_same_names() {
    let name = field(".targets[].name");
    let rule = name["x-kubernetes-validations"][0]["rule"]
        .as_str()
        .unwrap();
    let reserved: Vec<&str> = rule.split('\'').skip(1).step_by(2).collect();
    assert!(reserved.len() > 30 && reserved.contains(&"time") && reserved.contains(&"null_type"));
    for name in reserved {
        assert!(!is_variable_name(name), "{name}");
    }
    for name in ["", "1st", "my-pods", "a.b", "é", "a b", &"x".repeat(64)] {
        assert!(!is_variable_name(name), "{name}");
    }
    for name in ["_", "pods", "Time", "in_", "revisions2", &"x".repeat(63)] {
        assert!(is_variable_name(name), "{name}");
    }
}

/// The rules would count a field that is null as given, and the operator as absent.
#[test]
fn no_field_of_a_reference_can_be_null() {
    let properties = field(".targets[].reference")["properties"].clone();
    for (name, property) in properties.as_object().unwrap() {
        assert_eq!(property.get("nullable"), None, "{name}");
    }
    let selector = field(".targets[].reference.labelSelector")["properties"].clone();
    assert_eq!(selector["matchLabels"].get("nullable"), None);
}

#[test]
fn every_field_of_the_spec_and_the_status_is_described() {
    let schema = schema(&cleaner_crd());
    for part in ["spec", "status"] {
        let mut found = Vec::new();
        nodes("", &schema["properties"][part], &mut found);
        assert!(found.len() > 20, "{part}");
        for (path, node) in found {
            let is_nested = path.ends_with("[]") || path.ends_with("{}");
            let is_core = path.starts_with(".conditions[]") && part == "status";
            if !is_nested && !is_core {
                assert!(node["description"].is_string(), "{part}{path}");
            }
        }
    }
}

/// The proposal's example has a status with a placeholder instead of a time.
#[test]
fn the_status_of_the_proposal_is_readable() {
    let status: CleanerStatus = serde_json::from_value(json!({
        "resolvedTargets": ["web.services.serving.knative.dev/v1"],
        "nextScheduledEvaluation": "<timestamp>",
    }))
    .unwrap();
    assert_eq!(
        status.next_scheduled_evaluation.as_deref(),
        Some("<timestamp>")
    );
    assert_eq!(status.deletion, None);
}

#[test]
fn a_deletion_is_read_as_it_was_written() {
    let object = json!({
        "apiVersion": "cleaner.vtex.dev/v1alpha",
        "kind": "Cleaner",
        "metadata": { "name": "demo", "namespace": "demo" },
        "spec": CleanerSpec {
            ttl: "99999999999999999999h".to_owned(),
            ..serde_json::from_value(json!({ "ttl": "0" })).unwrap()
        },
        "status": {
            "conditionResults": [{ "index": 0, "result": "True" }],
            "evaluationTime": "2026-01-01T00:00:00.000001Z",
            "targets": [{
                "name": "pods", "delete": true, "includeWhenEvaluating": false,
                "state": { "items": [{ "anything": [1, null] }] }, "truncated": true,
            }],
            "deletion": {
                "phase": "Helm",
                "phaseStartedAt": "2026-01-01T00:00:00.000001Z",
                "objects": [{
                    "target": "pods", "group": "", "version": "v1", "kind": "Pod", "resource": "pods",
                    "namespace": "demo", "name": "a", "uid": "1", "outcome": "Accepted",
                }],
                "helm": {
                    "release": "r", "step": "PreDeleteHooks", "hooksDone": 0, "objectsDone": 0, "objectsFailed": 0,
                    "hook": { "kind": "Job", "name": "j", "startedAt": "2026-01-01T00:00:00.000001Z" },
                },
                "event": { "attempts": 3, "lastError": "the sink answered with HTTP 500" },
            },
        },
    });
    let read: Cleaner = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), object);
}

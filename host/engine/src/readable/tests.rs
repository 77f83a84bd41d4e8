use kube::Resource;
use kube::core::{DynamicObject, PartialObjectMeta};
use serde_json::{Value, json};

use super::{Answered, Readable};
use crate::tests::Lamp;

fn lamp(spec: &Value) -> Value {
    json!({
        "apiVersion": "example.com/v1",
        "kind": "Lamp",
        "metadata": {
            "name": "a", "namespace": "team", "uid": "u", "resourceVersion": "7", "generation": 2,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": { "l": "1" }, "annotations": { "a": "1" }, "finalizers": ["f"],
            "managedFields": [{ "manager": "kubectl", "fieldsV1": { "f:spec": {} } }],
        },
        "spec": spec,
        "status": { "phase": "Lit" },
    })
}

fn red() -> Value {
    json!({ "lightColor": "red" })
}

/// An object as kube reads it, without what is dropped.
fn expected() -> Value {
    let mut whole: Lamp = serde_json::from_value(lamp(&red())).unwrap();
    whole.types = None;
    whole.metadata.managed_fields = None;
    json!(whole)
}

#[test]
fn an_object_is_read_as_kube_reads_it() {
    let text = lamp(&red()).to_string();
    let watched: Readable<Lamp> = serde_json::from_str(&text).unwrap();
    assert_eq!(json!(watched.0.unwrap()), expected());
    let answered: Answered<Lamp> = serde_json::from_str(&text).unwrap();
    assert_eq!(json!(answered.0), expected());
}

#[test]
fn an_object_that_our_types_cannot_hold_keeps_its_name() {
    for spec in [json!({ "lightColor": 7 }), json!(null), json!([])] {
        let text = lamp(&spec).to_string();
        let watched: Readable<Lamp> = serde_json::from_str(&text).unwrap();
        assert_eq!(watched.meta().name.as_deref(), Some("a"));
        assert_eq!(watched.meta().finalizers.as_deref().unwrap(), ["f"]);
        assert!(watched.0.is_err());
    }
}

#[test]
fn an_object_without_status_is_whole() {
    let mut object = lamp(&red());
    object.as_object_mut().unwrap().remove("status");
    let watched: Readable<Lamp> = serde_json::from_value(object.clone()).unwrap();
    assert!(watched.0.unwrap().status.is_none());
    object["status"] = Value::Null;
    let watched: Readable<Lamp> = serde_json::from_value(object).unwrap();
    assert!(watched.0.unwrap().status.is_none());
}

#[test]
fn an_error_names_no_value() {
    let check = |field: &str, value: Value, expected: &str| {
        let mut object = lamp(&red());
        object[field] = value;
        let watched: Readable<Lamp> = serde_json::from_value(object).unwrap();
        let error = watched.0.unwrap_err().error;
        assert!(error.starts_with(expected), "{error}");
        assert!(!error.contains("hunter2") && error.len() <= 256, "{error}");
    };
    let is_text = "invalid type: string, expected ";
    check("spec", json!("hunter2"), is_text);
    check(
        "spec",
        json!("\", expected hunter2\n".repeat(1000)),
        is_text,
    );
    let phase = "unknown variant, expected `Lit` or `Dark`";
    check("status", json!({ "phase": "hunter2" }), phase);
    check("status", json!({ "phase": "`, expected hunter2" }), phase);
    check("spec", json!({}), "missing field `lightColor`");
}

#[test]
fn of_metadata_alone_the_metadata_is_asked_for_and_read() {
    type Meta = PartialObjectMeta<DynamicObject>;
    let partial = json!({
        "apiVersion": "meta.k8s.io/v1",
        "kind": "PartialObjectMetadata",
        "metadata": lamp(&red())["metadata"],
    });
    let watched: Readable<Meta> = serde_json::from_str(&partial.to_string()).unwrap();
    assert_eq!(json!(watched.meta()), expected()["metadata"]);
    assert!(Readable::<Meta>::metadata_api() && !Readable::<Lamp>::metadata_api());
}

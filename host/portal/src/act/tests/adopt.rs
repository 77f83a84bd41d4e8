use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use super::super::takeover;

const UID: &str = "1f9a";

fn entry(manager: &str, operation: &str, fields: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        "manager": manager,
        "operation": operation,
        "time": "2026-01-01T00:00:00Z",
    })
}

/// The fields of an operator that set the owner, and something else.
fn owner(uid: &str, more: &Value) -> Value {
    let mut fields = json!({ "f:metadata": { "f:ownerReferences": { ".": {}, format!("k:{{\"uid\":\"{uid}\"}}"): {} } } });
    json_patch::merge(&mut fields, more);
    fields
}

fn with(mut entry: Value, field: &str, value: &str) -> Value {
    entry[field] = value.into();
    entry
}

#[track_caller]
fn check(entries: &Value, expected: Option<&Value>) {
    let managed_fields: Vec<ManagedFieldsEntry> = serde_json::from_value(entries.clone()).unwrap();
    let metadata = ObjectMeta {
        managed_fields: Some(managed_fields),
        ..ObjectMeta::default()
    };
    let found = takeover(&metadata, UID).map(|entries| json!(entries));
    assert_eq!(found.as_ref(), expected);
    // It is done once.
    if let Some(done) = found {
        let done: Vec<ManagedFieldsEntry> = serde_json::from_value(done).unwrap();
        let done = ObjectMeta {
            managed_fields: Some(done),
            ..ObjectMeta::default()
        };
        assert_eq!(takeover(&done, UID), None);
    }
}

#[test]
fn the_entry_that_set_the_owner_becomes_ours() {
    let fields = owner(UID, &json!({ "f:spec": { "f:replicas": {} } }));
    let status = with(
        entry(
            "kube-controller-manager",
            "Update",
            &json!({ "f:status": {} }),
        ),
        "subresource",
        "status",
    );
    let restart = entry(
        "kubectl-rollout",
        "Update",
        &json!({ "f:spec": { "f:template": {} } }),
    );
    check(
        &json!([entry("manager", "Update", &fields), status, restart]),
        Some(&json!([
            entry("podloom-portal", "Apply", &fields),
            status,
            restart
        ])),
    );
}

#[test]
fn our_own_entry_gets_the_fields_too() {
    let theirs = owner(
        UID,
        &json!({ "f:spec": { "f:template": { "f:spec": { "f:a": {} } } } }),
    );
    let ours = json!({ "f:spec": { "f:replicas": {}, "f:template": { "f:spec": { "f:b": {} } } } });
    let both = owner(
        UID,
        &json!({ "f:spec": { "f:replicas": {}, "f:template": { "f:spec": { "f:a": {}, "f:b": {} } } } }),
    );
    check(
        &json!([
            entry("podloom-portal", "Apply", &ours),
            entry("manager", "Update", &theirs)
        ]),
        Some(&json!([entry("podloom-portal", "Apply", &both)])),
    );
}

#[test]
fn what_others_own_stays_theirs() {
    let fields = owner(UID, &json!({}));
    let update = |manager| entry(manager, "Update", &fields);
    check(&json!([]), None);
    check(&json!([update("kubectl")]), None);
    check(&json!([update("kubectl-edit")]), None);
    check(&json!([entry("manager", "Apply", &fields)]), None);
    check(
        &json!([with(update("manager"), "subresource", "status")]),
        None,
    );
    check(
        &json!([entry("manager", "Update", &owner("other", &json!({})))]),
        None,
    );
    check(
        &json!([entry("manager", "Update", &json!({ "f:spec": {} }))]),
        None,
    );
    assert_eq!(takeover(&ObjectMeta::default(), UID), None);
}

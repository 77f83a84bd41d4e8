//! How a Deployment of another operator becomes ours.
//!
//! The public operator writes with plain updates. The API server remembers its fields under its name, so a later apply of ours could
//! change them and never remove one. So its entry becomes ours first, as `kubectl apply --server-side` does with that of client-side apply.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use kube::core::ObjectMeta;
use podloom_api::names::portal::FIELD_MANAGER;
use serde_json::{Map, Value};

/// Returns the managed fields of a Deployment after the fields of the operator that made it became ours; none if there is nothing to do.
///
/// That operator is the one that set the reference to this owner. Fields that people set with kubectl stay theirs.
pub(crate) fn takeover(
    deployment: &ObjectMeta,
    owner_uid: &str,
) -> Option<Vec<ManagedFieldsEntry>> {
    let entries = deployment.managed_fields.as_deref()?;
    let (theirs, mut rest): (Vec<_>, Vec<_>) = entries
        .iter()
        .cloned()
        .partition(|entry| is_theirs(entry, owner_uid));
    let api_version = theirs.first()?.api_version.clone();
    let place = rest
        .iter()
        .position(|entry| is_ours(entry) && entry.api_version == api_version);
    let mut ours = match place {
        Some(place) => rest.remove(place),
        None => ManagedFieldsEntry {
            manager: Some(FIELD_MANAGER.to_owned()),
            operation: Some("Apply".to_owned()),
            fields_v1: None,
            ..theirs.first()?.clone()
        },
    };
    for entry in theirs {
        ours.fields_v1 = union(ours.fields_v1, entry.fields_v1);
    }
    rest.insert(0, ours);
    Some(rest)
}

/// Whether an entry is that of the operator which set the owner.
fn is_theirs(entry: &ManagedFieldsEntry, owner_uid: &str) -> bool {
    let fields = entry.fields_v1.as_ref();
    let owners = fields.and_then(|fields| fields.0.get("f:metadata")?.get("f:ownerReferences"));
    let owner = format!("k:{}", serde_json::json!({ "uid": owner_uid }));
    entry.operation.as_deref() == Some("Update")
        && has_no_subresource(entry)
        && owners.is_some_and(|owners| owners.get(owner).is_some())
        && !entry.manager.as_deref().is_some_and(is_kubectl)
}

/// kubectl names its commands: `kubectl-edit`, `kubectl-client-side-apply`.
fn is_kubectl(manager: &str) -> bool {
    manager == "kubectl" || manager.starts_with("kubectl-")
}

fn is_ours(entry: &ManagedFieldsEntry) -> bool {
    entry.manager.as_deref() == Some(FIELD_MANAGER)
        && entry.operation.as_deref() == Some("Apply")
        && has_no_subresource(entry)
}

fn has_no_subresource(entry: &ManagedFieldsEntry) -> bool {
    entry.subresource.as_deref().unwrap_or_default().is_empty()
}

/// The fields of both sets.
fn union(one: Option<FieldsV1>, other: Option<FieldsV1>) -> Option<FieldsV1> {
    let (Some(FieldsV1(mut one)), Some(FieldsV1(other))) = (one.clone(), other.clone()) else {
        return one.or(other);
    };
    add(&mut one, other);
    Some(FieldsV1(one))
}

fn add(fields: &mut Value, more: Value) {
    if let (Value::Object(fields), Value::Object(more)) = (fields, more) {
        for (key, value) in more {
            add(
                fields
                    .entry(key)
                    .or_insert_with(|| Value::Object(Map::new())),
                value,
            );
        }
    }
}

#[cfg(test)]
mod tests;

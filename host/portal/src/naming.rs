//! The names of what belongs to a PortalExpose.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ObjectMeta;
use podloom_api::names::portal::{annotation, label};
use podloom_api::{PortalExpose, names};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The keys of the labels of what belongs to a PortalExpose.
const LABELS: [&str; 4] = [
    label::NAME.0,
    label::COMPONENT.0,
    label::MANAGED_BY.0,
    label::EXPOSE,
];
/// The keys of the annotations that are read on what belongs to a PortalExpose.
const ANNOTATIONS: [&str; 5] = [
    annotation::IDENTITY_FOR,
    annotation::INPUT_HASH,
    annotation::TEMPLATE_HASH,
    names::annotation::CHAIN,
    names::annotation::MUTATIONS,
];
/// The longest name that is kept as it is: it must be the value of a label.
const BASE_MAX: usize = 63;
/// How much of a longer name is kept. A dash and a hash follow it.
const KEPT: usize = 54;
/// How many hex digits of the hash are used.
const HASH: usize = 8;

/// What follows the base in the name of a Deployment.
pub(crate) const DEPLOYMENT: &str = "-tunnel";
/// What follows the base in the name of a Secret.
pub(crate) const SECRET: &str = "-tunnel-identity";

/// Returns the name of a PortalExpose as a label has it: a long one is cut, and ends in a hash of the whole.
pub(crate) fn base(name: &str) -> String {
    if name.len() <= BASE_MAX {
        return name.to_owned();
    }
    let kept: String = name.chars().take(KEPT).collect();
    let hash: String = sha256(name.as_bytes()).chars().take(HASH).collect();
    format!("{}-{hash}", kept.trim_end_matches(['-', '.']))
}

/// Returns whether a label's value may be that of a name that is longer.
pub(crate) fn may_be_cut(base: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let end = base.rsplit_once('-').map(|(_, end)| end);
    end.is_some_and(|hash| hash.len() == HASH && hash.bytes().all(is_digit))
}

/// Returns the name of the Deployment of a PortalExpose.
pub(crate) fn deployment_name(name: &str) -> String {
    base(name) + DEPLOYMENT
}

/// Returns the name of the Secret that has the identity of a PortalExpose.
pub(crate) fn secret_name(name: &str) -> String {
    base(name) + SECRET
}

/// Returns the four labels of everything that belongs to a PortalExpose. The Deployment's selector matches them.
pub(crate) fn labels(name: &str) -> BTreeMap<String, String> {
    let fixed = [label::NAME, label::COMPONENT, label::MANAGED_BY];
    let fixed = fixed.map(|(key, value)| (key.to_owned(), value.to_owned()));
    fixed
        .into_iter()
        .chain([(label::EXPOSE.to_owned(), base(name))])
        .collect()
}

/// Returns the reference to a PortalExpose as an owner; none if it has no UID.
pub(crate) fn owner(expose: &ObjectMeta) -> Option<OwnerReference> {
    let resource = PortalExpose::resource();
    Some(OwnerReference {
        api_version: resource.api_version,
        kind: resource.kind,
        name: expose.name.clone()?,
        uid: expose.uid.clone()?,
        ..OwnerReference::default()
    })
}

/// Removes what nothing reads from the metadata of what belongs to a PortalExpose, before it is cached.
///
/// Its user, or anybody who labels an object as ours, may add a lot to it.
pub(crate) fn prune(metadata: &mut ObjectMeta) {
    let mut read = std::mem::take(metadata);
    if let Some(labels) = &mut read.labels {
        labels.retain(|key, _| LABELS.contains(&key.as_str()));
    }
    if let Some(annotations) = &mut read.annotations {
        annotations.retain(|key, _| ANNOTATIONS.contains(&key.as_str()));
    }
    *metadata = ObjectMeta {
        name: read.name,
        namespace: read.namespace,
        uid: read.uid,
        resource_version: read.resource_version,
        generation: read.generation,
        creation_timestamp: read.creation_timestamp,
        deletion_timestamp: read.deletion_timestamp,
        deletion_grace_period_seconds: read.deletion_grace_period_seconds,
        labels: read.labels,
        annotations: read.annotations,
        owner_references: read.owner_references,
        finalizers: read.finalizers,
        ..ObjectMeta::default()
    };
}

// Hashes, as they are written in names and annotations.

/// Returns the SHA-256 of some bytes, in hex.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns the SHA-256 of a value's canonical JSON: without spaces, and with the fields of objects in order of their names.
pub(super) fn of_json(value: &Value) -> String {
    // serde_json's maps are sorted.
    sha256(value.to_string().as_bytes())
}

/// Writes bytes in hex.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;

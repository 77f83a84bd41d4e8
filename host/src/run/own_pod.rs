//! What the operator knows about its own pod.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::process;

use k8s_openapi::api::core::v1::ObjectReference;

use crate::cli::OwnPodArguments;

const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// The operator's own pod, for Events about it; none if its name is not configured.
pub(super) fn reference(arguments: &OwnPodArguments) -> Option<ObjectReference> {
    Some(ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: Some(arguments.pod_name.clone()?),
        namespace: Some(namespace(arguments)),
        uid: arguments.pod_uid.clone(),
        ..ObjectReference::default()
    })
}

/// The operator's own namespace.
pub(super) fn namespace(arguments: &OwnPodArguments) -> String {
    arguments.pod_namespace.clone().unwrap_or_else(of_account)
}

/// The namespace of the ServiceAccount that this process runs with.
pub(super) fn of_account() -> String {
    let read = fs::read_to_string(OWN_NAMESPACE).unwrap_or_default();
    match read.trim() {
        "" => "default".to_owned(),
        namespace => namespace.to_owned(),
    }
}

/// A unique identity. If two processes had the same one, a new process could take the Lease of one that still runs.
pub(super) fn identity() -> String {
    let host = host_name().unwrap_or_else(|| "podloom".to_owned());
    let random = RandomState::new().hash_one(process::id());
    format!("{host}-{}-{random:016x}", process::id())
}

/// The name of its pod, or else of this machine.
pub(super) fn instance(arguments: &OwnPodArguments) -> Option<String> {
    arguments.pod_name.clone().or_else(host_name)
}

/// The name of this machine.
fn host_name() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

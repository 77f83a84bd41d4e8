//! What all duties share, and what the operator knows about its own pod.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::{fs, process};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use podloom_control_loop::LoopMetrics;
use podloom_controllers::ControllerMetrics;
use podloom_engine::blocking::BlockingThreads;
use podloom_engine::clock::Clock;
use podloom_mutators::PluginMetrics;
use podloom_webhook::PeerTurns;

use crate::cli::{OwnPodArguments, RunArguments};

/// What all duties share.
pub(super) struct Parts<'a> {
    pub(super) arguments: &'a RunArguments,
    pub(super) client: Client,
    /// One for the whole process, however many duties there are and however often they start.
    pub(super) blocking: BlockingThreads,
    /// The turns to pass the chain, for whoever calls it.
    pub(super) turns: PeerTurns,
    pub(super) clock: Clock,
    pub(super) metrics: ControllerMetrics,
    pub(super) plugins: PluginMetrics,
    /// The metrics of all control loops.
    pub(super) loops: Arc<LoopMetrics>,
    /// The name of the operator's own pod.
    pub(super) instance: Option<String>,
}

const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// The operator's own pod, for Events about it; none if its name is not configured.
pub(super) fn own_pod(arguments: &OwnPodArguments) -> Option<ObjectReference> {
    Some(ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: Some(arguments.pod_name.clone()?),
        namespace: Some(own_namespace(arguments)),
        uid: arguments.pod_uid.clone(),
        ..ObjectReference::default()
    })
}

/// The operator's own namespace.
pub(super) fn own_namespace(arguments: &OwnPodArguments) -> String {
    arguments
        .pod_namespace
        .clone()
        .unwrap_or_else(account_namespace)
}

/// The namespace of the ServiceAccount that this process runs with.
pub(super) fn account_namespace() -> String {
    let read = fs::read_to_string(OWN_NAMESPACE).unwrap_or_default();
    match read.trim() {
        "" => "default".to_owned(),
        namespace => namespace.to_owned(),
    }
}

/// The name of its pod, or else a unique identity. If two processes had the same one, a new process could take the Lease of one that
/// still runs.
pub(super) fn identity(arguments: &OwnPodArguments) -> String {
    arguments.pod_name.clone().unwrap_or_else(|| {
        let host = host_name().unwrap_or_else(|| "podloom".to_owned());
        let random = RandomState::new().hash_one(process::id());
        format!("{host}-{}-{random:016x}", process::id())
    })
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

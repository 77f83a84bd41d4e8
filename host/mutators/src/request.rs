//! Which pod is mutated, and for which object.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use podloom_pod_path::LAST_APPLIED;

use crate::until::Until;

mod log;

pub(crate) use self::log::{PodFields, pod_event};

/// The submitted object, as plugins can query it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The kind of the submitted object: one of Podloom's own kinds, else `Pod`, also for the pod templates of workloads.
    pub kind: String,
    /// The submitted object's name; empty if the API server will generate it.
    pub name: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The submitted object's labels.
    pub labels: BTreeMap<String, String>,
    /// The submitted object's annotations.
    pub annotations: BTreeMap<String, String>,
    /// Labels of the namespace.
    pub namespace_labels: BTreeMap<String, String>,
    /// Annotations of the namespace.
    pub namespace_annotations: BTreeMap<String, String>,
    /// Whether the namespace's labels and annotations are not known: then a plugin that needs them fails the pod, whatever its failure
    /// policy is.
    pub is_namespace_unread: bool,
    /// Whether the result will be discarded.
    pub dry_run: bool,
    /// Keys of the labels that the workload's selector matches; plugins cannot change them.
    pub selector: Arc<[String]>,
    /// A plugin that has not returned by then fails: nobody waits for the pod any longer.
    pub deadline: Option<Instant>,
    /// Who asks. Only for the limit on log lines: plugins do not see it.
    pub peer: Option<IpAddr>,
}

impl Request {
    pub(crate) fn until(&self) -> Until {
        Until::at(self.deadline)
    }

    /// An annotation of the submitted object, unless it is hidden from plugins.
    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        shown(&self.annotations, key)
    }

    /// An annotation of the namespace, unless it is hidden from plugins.
    pub(crate) fn namespace_annotation(&self, key: &str) -> Option<&str> {
        shown(&self.namespace_annotations, key)
    }
}

/// Why a chain runs on a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunMode {
    /// Somebody waits for the pod. Plugins whose `match` excludes it are skipped.
    Serve,
    /// The chain is tried on a sample pod before it serves. Every plugin runs.
    Prove {
        /// The sample pod.
        sample: &'static str,
        /// When the time for building the chain is over.
        until: Until,
    },
}

fn shown<'r>(annotations: &'r BTreeMap<String, String>, key: &str) -> Option<&'r str> {
    let value = annotations.get(key).filter(|_| key != LAST_APPLIED);
    value.map(String::as_str)
}

#[cfg(test)]
mod tests;

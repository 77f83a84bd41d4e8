//! What is being mutated, and for whom.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use podloom_pod_path::LAST_APPLIED;

use crate::until::Until;

mod log;

pub(crate) use self::log::{PodFields, pod_event};

/// The submitted object, as plugins may ask about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The kind of the submitted object: one of Podloom's own kinds, else `Pod`; templates of workloads are `Pod` too.
    pub kind: String,
    /// The submitted object's name; empty when only the API server will choose it.
    pub name: String,
    /// The namespace the pod will live in.
    pub namespace: String,
    /// The submitted object's labels.
    pub labels: BTreeMap<String, String>,
    /// The submitted object's annotations.
    pub annotations: BTreeMap<String, String>,
    /// Labels of the namespace; empty when they are not known.
    pub namespace_labels: BTreeMap<String, String>,
    /// Annotations of the namespace; empty when they are not known.
    pub namespace_annotations: BTreeMap<String, String>,
    /// Whether the result will be thrown away.
    pub dry_run: bool,
    /// Keys of the labels by which the workload's selector finds this pod; no plugin may change them.
    pub selector: Arc<[String]>,
    /// When nobody waits for the pod any more: a plugin that has not ended by then has failed.
    pub deadline: Option<Instant>,
}

impl Request {
    pub(crate) fn until(&self) -> Until {
        Until::at(self.deadline)
    }

    /// An annotation of the submitted object that plugins may see.
    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        shown(&self.annotations, key)
    }

    /// An annotation of the namespace that plugins may see.
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

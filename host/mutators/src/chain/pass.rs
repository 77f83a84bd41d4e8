//! How far a pod has come on its way through a chain.

use std::fmt;
use std::sync::Arc;

use podloom_mutation::{MutatedPod, PluginRun, PodRejection, PodRequest, RejectedPod};
use podloom_pod_path::Trace;
use serde_json::Value;

use crate::limits::CONTAINERS;
use crate::request::RunMode;
use crate::stamp::MutationEntry;
use crate::until::Until;

/// A pod on its way through the chain, between two plugins.
pub(crate) struct Passing {
    pub(crate) pod: Value,
    /// Bytes of memory that the writes so far take, in the pod and in the logs of writes. One limit covers the whole chain.
    pub(super) held: usize,
    /// Of the committed writes, in order.
    pub(super) traces: Vec<Trace>,
    /// A plugin that has not returned by then is interrupted.
    pub(super) until: Until,
    /// Whether it is recorded what each plugin reads and writes.
    pub(super) records: bool,
}

impl Passing {
    pub(crate) fn new(pod: Value) -> Self {
        Self {
            pod,
            held: 0,
            traces: Vec::new(),
            until: Until::DONE,
            records: false,
        }
    }
}

/// A pod that has passed some plugins of a chain, and waits for the next one.
pub struct Pass {
    pub(super) passing: Passing,
    pub(super) mode: RunMode,
    pub(super) request: Arc<PodRequest>,
    pub(super) values: Values,
    /// The stamp of an earlier pass.
    pub(super) before: Vec<MutationEntry>,
    /// One for each plugin that the pod has passed.
    pub(super) runs: Vec<PluginRun>,
}

impl fmt::Debug for Pass {
    /// Without the pod, whose values may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pass")
            .field("runs", &self.runs)
            .finish_non_exhaustive()
    }
}

/// Whether the result has the old and new values of each write. They may be secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// No. Only the pod and the patch contain the new values.
    Hidden,
    /// Yes, for a diff.
    Shown,
}

/// How far a pod has come.
#[derive(Debug)]
pub enum Progress {
    /// It has passed the chain, or was rejected.
    Ended(Result<MutatedPod, RejectedPod>),
    /// A plugin was interrupted. It left no trace in the pod, which can go on with that plugin.
    Paused(Pass),
}

/// Refuses a pod before any work is done for it that grows with its containers.
pub(super) fn check_containers(pod: &Value) -> Result<(), RejectedPod> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let list = |list: &str| pod.get("spec")?.get(list)?.as_array();
    let count = lists.into_iter().filter_map(list).map(Vec::len).sum();
    match count {
        0..=CONTAINERS => Ok(()),
        count => {
            let reason = format!(
                "the pod has {count} containers; at most {CONTAINERS} pass the plugin chain"
            );
            Err(PodRejection::Denied(reason).into())
        }
    }
}

/// Removes the values of all writes. What is not there cannot be shown.
pub(super) fn hide_values(result: &mut Result<MutatedPod, RejectedPod>) {
    let runs = match result {
        Ok(mutated) => &mut mutated.runs,
        Err(rejected) => &mut rejected.runs,
    };
    for write in runs.iter_mut().flat_map(|run| &mut run.writes) {
        (write.old, write.new) = (None, None);
    }
}

//! How far a pod has come on its way through a chain.

use std::fmt;
use std::sync::Arc;

use podloom_pod_path::Trace;
use serde_json::Value;

use super::{Mutation, Rejected, RejectionCause};
use crate::limits::CONTAINERS;
use crate::request::{Request, RunMode};
use crate::run::PluginRun;
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
    pub(super) request: Arc<Request>,
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

/// How far a pod has come.
#[derive(Debug)]
pub enum Progress {
    /// It has passed the chain, or was rejected.
    Ended(Result<Mutation, Rejected>),
    /// A plugin was interrupted. It left no trace in the pod, which can go on with that plugin.
    Paused(Pass),
}

/// Refuses a pod before any work is done for it that grows with its containers.
pub(super) fn check_containers(pod: &Value) -> Result<(), Rejected> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let list = |list: &str| pod.get("spec")?.get(list)?.as_array();
    let count = lists.into_iter().filter_map(list).map(Vec::len).sum();
    match count {
        0..=CONTAINERS => Ok(()),
        count => Err(Rejected {
            cause: RejectionCause::TooManyContainers(count),
            runs: Vec::new(),
        }),
    }
}

//! Why a chain runs on a pod, and how log lines name the pod.

mod log;

pub(crate) use self::log::{PodFields, pod_event};
use crate::until::Until;

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

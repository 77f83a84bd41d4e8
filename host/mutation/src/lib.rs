//! What is asked of the plugin chain for a pod, and what it answers: plain data, for those who have a pod and for the chain itself.

mod answer;
mod failure;
mod request;
mod run;

use futures::future::BoxFuture;
use serde_json::Value;

pub use podloom_pod_path::{Usage, Write};

pub use self::answer::{MutatedPod, PodRejection, RejectedPod, runs};
pub use self::failure::{CallFailure, show_bytes, show_duration};
pub use self::request::{NamespaceMetadata, PodRequest, texts};
pub use self::run::{Dimension, Note, PluginOutcome, PluginRun, Severity, remarks, remarks_of};

/// Passes pods through the plugin chain. Nothing else calls the chain.
pub trait PodMutator: Send + Sync {
    /// Returns the mutated pod, or why it was rejected.
    ///
    /// The pod is JSON, so that fields which our types do not know survive. It sees one chain from start to end, even if the chain is
    /// reloaded meanwhile. Nothing of a rejected pod is kept.
    fn mutate(
        &self,
        pod: Value,
        request: PodRequest,
    ) -> BoxFuture<'_, Result<MutatedPod, RejectedPod>>;

    /// Returns the digest of the chain that the next pod will see; none without a chain.
    fn chain(&self) -> Option<String>;

    /// Returns whether a plugin of that chain may write labels, so that it matters which ones a workload needs.
    fn writes_labels(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;

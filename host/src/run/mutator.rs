//! The chain as the controllers see it.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use podloom_controllers::{MutatedPod, Note, PodMutator, PodRequest, Refusal};
use podloom_mutators::{Chain, Mutation, PluginMetrics, RejectionCause, Request, Serving, Slot};
use serde_json::Value;

/// Passes pods through the chain that serves.
pub(super) struct ChainMutator {
    pub(super) slot: Arc<Slot>,
    pub(super) metrics: PluginMetrics,
    pub(super) without_chain: WithoutChain,
}

/// What becomes of pods while no chain is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WithoutChain {
    /// They are refused, and tried again later.
    Refuse,
    /// They are created as they were rendered.
    Pass,
}

impl PodMutator for ChainMutator {
    fn mutate(&self, pod: &Pod, request: PodRequest) -> BoxFuture<'_, Result<MutatedPod, Refusal>> {
        let pod = serde_json::to_value(pod);
        async move {
            let pod =
                pod.map_err(|error| Refusal::Broken(format!("the pod is no JSON: {error}")))?;
            let serving = self.slot.serving();
            match (&serving.chain, self.without_chain) {
                (Some(chain), _) => self.call(Arc::clone(chain), pod, request).await,
                (None, WithoutChain::Pass) => Ok(MutatedPod {
                    pod,
                    notes: Vec::new(),
                }),
                (None, WithoutChain::Refuse) => Err(no_chain(&serving)),
            }
        }
        .boxed()
    }
}

impl ChainMutator {
    /// Plugins are foreign code and may take their time, so they run beside the tasks of the operator.
    async fn call(
        &self,
        chain: Arc<Chain>,
        pod: Value,
        request: PodRequest,
    ) -> Result<MutatedPod, Refusal> {
        let request = to_chain(request);
        let called = tokio::task::spawn_blocking(move || chain.mutate(pod, request)).await;
        let result =
            called.map_err(|error| Refusal::Broken(format!("the chain broke: {error}")))?;
        self.metrics.mutated(&result);
        result
            .map(mutated)
            .map_err(|rejected| refusal(rejected.cause))
    }
}

fn no_chain(serving: &Serving) -> Refusal {
    let reason = match &serving.failed {
        Some(failed) => failed.error.to_string(),
        None => "it is being compiled".to_owned(),
    };
    Refusal::Broken(format!("no plugin chain is loaded: {reason}"))
}

fn to_chain(request: PodRequest) -> Request {
    Request {
        kind: request.kind.to_owned(),
        name: request.name,
        namespace: request.namespace,
        labels: request.labels,
        annotations: request.annotations,
        namespace_labels: request.namespace_labels,
        namespace_annotations: request.namespace_annotations,
        dry_run: false,
        selector: Arc::default(),
    }
}

fn mutated(mutation: Mutation) -> MutatedPod {
    let notes = mutation.runs.into_iter().flat_map(|run| {
        let plugin = run.plugin;
        run.notes.into_iter().map(move |text| Note {
            plugin: plugin.clone(),
            text,
        })
    });
    MutatedPod {
        notes: notes.collect(),
        pod: mutation.pod,
    }
}

fn refusal(cause: RejectionCause) -> Refusal {
    match cause {
        RejectionCause::Denied { plugin, reason } => Refusal::Denied(format!("{plugin}: {reason}")),
        RejectionCause::Failed { plugin, failure } => {
            Refusal::Broken(format!("{plugin}: {failure}"))
        }
        RejectionCause::NotAPod(_) => Refusal::Broken(cause.to_string()),
    }
}

#[cfg(test)]
mod tests;

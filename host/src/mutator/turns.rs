//! The chain for the controllers, one turn for each pod: so the Browsers of one namespace do not keep out others, nor the pods of
//! admission reviews.

use futures::FutureExt;
use futures::future::BoxFuture;
use podloom_mutation::{MutatedPod, PodMutator, PodRejection, PodRequest, RejectedPod};
use podloom_webhook::PeerTurns;
use serde_json::Value;

use super::ChainMutator;

/// Passes pods through the active chain, each in its turn.
pub(crate) struct InTurns {
    pub(crate) chain: ChainMutator,
    pub(crate) turns: PeerTurns,
}

impl PodMutator for InTurns {
    fn mutate(
        &self,
        pod: Value,
        request: PodRequest,
    ) -> BoxFuture<'_, Result<MutatedPod, RejectedPod>> {
        async move {
            // The operator itself is one that asks, like a peer of the webhooks.
            let Ok(_turn) = self.turns.take(None, request.namespace.clone()).await else {
                let full = "too many pods wait for the chain";
                return Err(PodRejection::Overdue(full.to_owned()).into());
            };
            self.chain.mutate(pod, request).await
        }
        .boxed()
    }

    fn chain(&self) -> Option<String> {
        self.chain.chain()
    }
}

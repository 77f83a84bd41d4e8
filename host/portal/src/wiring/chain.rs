//! Notices a new plugin chain.

use std::sync::Arc;
use std::time::Duration;

use podloom_mutation::PodMutator;
use tokio::time::sleep;

use super::exposes::Exposes;

/// How often to look: the look is cheap.
const LOOK: Duration = Duration::from_secs(1);

/// Wakes all PortalExposes each time that the chain is another one. It has no end.
pub(super) async fn follow(mutator: Arc<dyn PodMutator>, exposes: Exposes) {
    let mut known = mutator.chain();
    loop {
        sleep(LOOK).await;
        let chain = mutator.chain();
        if chain != known {
            known = chain;
            exposes.wake_in(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt;
    use futures::future::BoxFuture;
    use podloom_api::PortalExpose;
    use podloom_engine::cache::{Cache, Watch};
    use serde_json::{Value, json};

    use super::*;
    use podloom_mutation::{MutatedPod, PodRequest, RejectedPod};

    /// Its digest is another one after three looks.
    #[derive(Default)]
    struct Reloaded(AtomicUsize);

    impl PodMutator for Reloaded {
        fn mutate(
            &self,
            _: Value,
            _: PodRequest,
        ) -> BoxFuture<'_, Result<MutatedPod, RejectedPod>> {
            std::future::pending().boxed()
        }

        fn chain(&self) -> Option<String> {
            let looks = self.0.fetch_add(1, Ordering::Relaxed);
            Some(if looks < 3 { "old" } else { "new" }.to_owned())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_chain_wakes_all_once() {
        let resource = Arc::new(PortalExpose::resource());
        let expose = json!({
            "metadata": { "name": "shop", "namespace": "team" },
            "spec": { "app": { "name": "a", "service": { "name": "a", "port": 1 } }, "relay": { "targets": [] } },
        });
        let expose = serde_json::from_value(expose).unwrap();
        let exposes = Cache::of(Watch::ours("", "", &resource), [expose]);
        let following = tokio::spawn(follow(Arc::new(Reloaded::default()), exposes.clone()));
        sleep(LOOK * 2 + LOOK / 2).await;
        assert!(exposes.noted().is_empty());
        sleep(LOOK).await;
        assert_eq!(exposes.noted(), ["shop"]);
        sleep(LOOK * 10).await;
        assert!(exposes.noted().is_empty());
        following.abort();
    }
}

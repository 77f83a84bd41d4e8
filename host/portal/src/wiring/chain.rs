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
            exposes.wake_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::BoxFuture;
    use futures::{FutureExt, StreamExt};
    use kube::runtime::reflector::store::Writer;
    use podloom_api::PortalExpose;
    use serde_json::Value;

    use super::super::exposes::Scope;
    use super::*;
    use podloom_engine::wakes::Wakes;
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
        let scope = Scope {
            namespace: None,
            store: Writer::new(Arc::clone(&resource)).as_reader(),
            resource,
            wakes: Wakes::default(),
        };
        let mut taken = Box::pin(scope.wakes.taken());
        let following = tokio::spawn(follow(
            Arc::new(Reloaded::default()),
            Exposes([scope].into()),
        ));
        sleep(LOOK * 2 + LOOK / 2).await;
        assert!(taken.next().now_or_never().is_none());
        sleep(LOOK).await;
        assert!(taken.next().await.unwrap().all);
        sleep(LOOK * 10).await;
        assert!(taken.next().now_or_never().is_none());
        following.abort();
    }
}

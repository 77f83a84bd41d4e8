//! Notices a new plugin chain.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::exposes::Exposes;
use crate::mutator::PodMutator;

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

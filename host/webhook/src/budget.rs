//! How much memory the requests that are being answered may take together.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The longest body. The API server takes objects of up to 3 MiB, and a review of an update has two.
pub(crate) const BODY_BYTES: usize = 8 << 20;
/// All requests together, in KiB.
const TOTAL_KIB: usize = 128 << 10;
/// What each request takes, however short it is: buffers of its connection, a fresh sandbox.
const BASE_KIB: usize = 64;
/// How much more memory a parsed body takes than its text.
const PARSED: usize = 8;

/// A budget for memory. There is no queue: what does not fit is refused at once, since the API server would wait in vain.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Semaphore>);

impl Default for Budget {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(TOTAL_KIB)))
    }
}

impl Budget {
    /// Returns the share of a request with a body of this length, to be held until it is answered; none if there is not enough left.
    /// A body of unknown length counts as the longest.
    pub(crate) fn take(&self, body: Option<usize>) -> Option<OwnedSemaphorePermit> {
        let body = body.unwrap_or(BODY_BYTES).min(BODY_BYTES);
        let kib = BASE_KIB + (body * PARSED).div_ceil(1 << 10);
        let kib = u32::try_from(kib).ok()?;
        Arc::clone(&self.0).try_acquire_many_owned(kib).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::{BODY_BYTES, Budget};

    #[test]
    fn a_thousand_pods_fit_and_only_one_of_the_longest_bodies_beside_another() {
        let budget = Budget::default();
        let pods: Vec<_> = (0..1000)
            .map_while(|_| budget.take(Some(4 << 10)))
            .collect();
        assert_eq!(pods.len(), 1000);
        drop(pods);
        let longest: Vec<_> = (0..10)
            .map_while(|_| budget.take(Some(BODY_BYTES)))
            .collect();
        assert_eq!(longest.len(), 1);
        assert!(
            budget.take(None).is_none(),
            "a body of unknown length counts as the longest"
        );
        assert!(budget.take(Some(4 << 10)).is_some(), "a pod still fits");
    }
}

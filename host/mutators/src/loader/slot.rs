//! Holds the chain that serves.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use tokio::sync::watch;

use super::LoadError;
use crate::chain::Chain;

/// Holds the chain that serves. It is swapped atomically, so a pod passes through one chain from start to end.
pub struct Slot {
    serving: ArcSwap<Serving>,
    attempted: watch::Sender<bool>,
}

/// The chain that serves, and the error of the last attempt to load one.
#[derive(Clone, Debug, Default)]
pub struct Serving {
    /// None until a chain was loaded.
    pub chain: Option<Arc<Chain>>,
    /// Since when it serves.
    pub since: Option<SystemTime>,
    /// Why the last attempt failed, if it did.
    pub failed: Option<FailedReload>,
}

/// A failed attempt to load a chain.
#[derive(Clone, Debug)]
pub struct FailedReload {
    /// When it failed like this for the first time.
    pub at: SystemTime,
    /// Why.
    pub error: Arc<LoadError>,
}

impl Default for Slot {
    /// Nothing serves yet.
    fn default() -> Self {
        Self {
            serving: ArcSwap::default(),
            attempted: watch::Sender::new(false),
        }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Slot").field(&self.serving()).finish()
    }
}

impl Slot {
    /// What serves now. Get it once per pod, so that the pod sees one chain.
    pub fn serving(&self) -> Arc<Serving> {
        self.serving.load_full()
    }

    /// Waits until the first attempt to load a chain has succeeded or failed.
    pub async fn attempted(&self) {
        let mut attempted = self.attempted.subscribe();
        // The sender lives as long as the slot.
        let _never_closed = attempted.wait_for(|attempted| *attempted).await;
    }

    /// Swaps in another chain.
    pub fn swap(&self, chain: Arc<Chain>) {
        self.serving.store(Arc::new(Serving {
            chain: Some(chain),
            since: Some(SystemTime::now()),
            failed: None,
        }));
        self.attempted.send_replace(true);
    }

    /// Clears the last failure; returns the serving chain if there was a failure.
    pub(super) fn restore(&self) -> Option<Arc<Chain>> {
        let serving = self.serving();
        serving.failed.as_ref()?;
        self.serving.store(Arc::new(Serving {
            failed: None,
            ..Serving::clone(&serving)
        }));
        serving.chain.clone()
    }

    /// Records why an attempt failed; returns whether the attempt before failed for the same reason. The chain keeps serving.
    pub fn refuse(&self, error: &Arc<LoadError>) -> bool {
        let serving = self.serving();
        let known = serving
            .failed
            .as_ref()
            .is_some_and(|failed| failed.error.to_string() == error.to_string());
        if !known {
            let failed = FailedReload {
                at: SystemTime::now(),
                error: Arc::clone(error),
            };
            self.serving.store(Arc::new(Serving {
                failed: Some(failed),
                ..Serving::clone(&serving)
            }));
        }
        self.attempted.send_replace(true);
        known
    }
}

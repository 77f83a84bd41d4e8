//! The chain that serves.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use tokio::sync::watch;

use super::LoadError;
use crate::chain::Chain;

/// The chain that serves now; swapped as a whole, so that a pod sees one chain from start to end.
pub struct Slot {
    serving: ArcSwap<Serving>,
    attempted: watch::Sender<bool>,
}

/// What serves, and what came of the last attempt to load.
#[derive(Clone, Debug, Default)]
pub struct Serving {
    /// None until a chain was good.
    pub chain: Option<Arc<Chain>>,
    /// When it began to serve.
    pub since: Option<SystemTime>,
    /// Why the last attempt came to nothing, if it did.
    pub failed: Option<FailedReload>,
}

/// An attempt that came to nothing.
#[derive(Clone, Debug)]
pub struct FailedReload {
    /// When it was made first.
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
    /// What serves now. Whoever works on a pod keeps this one to the end.
    pub fn serving(&self) -> Arc<Serving> {
        self.serving.load_full()
    }

    /// Waits until the first attempt to load a chain has ended, well or not.
    pub async fn attempted(&self) {
        let mut attempted = self.attempted.subscribe();
        // The sender lives as long as the slot.
        let _never_closed = attempted.wait_for(|attempted| *attempted).await;
    }

    /// Serves another chain from now on.
    pub fn swap(&self, chain: Arc<Chain>) {
        self.serving.store(Arc::new(Serving {
            chain: Some(chain),
            since: Some(SystemTime::now()),
            failed: None,
        }));
        self.attempted.send_replace(true);
    }

    /// Forgets the last refusal; returns what serves if there was one.
    pub(super) fn restore(&self) -> Option<Arc<Chain>> {
        let serving = self.serving();
        serving.failed.as_ref()?;
        self.serving.store(Arc::new(Serving {
            failed: None,
            ..Serving::clone(&serving)
        }));
        serving.chain.clone()
    }

    /// Remembers why an attempt came to nothing, and returns whether that was known. What serves goes on serving.
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

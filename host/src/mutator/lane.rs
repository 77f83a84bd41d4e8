//! Which calls of the chain run on the caller's own thread.
//!
//! To switch to a blocking thread and back costs as much as fast plugins take. So while the chain is fast, its calls begin where
//! their callers are: on the threads of the runtime. A plugin that takes long there would hold up other tasks, so it is interrupted
//! after a moment and goes on on a blocking thread, where the next calls then begin at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How long a call may take on the caller's thread. Fast plugins take a tenth of it.
pub(super) const SLICE: Duration = Duration::from_millis(2);
/// After a slow call, so many calls begin on blocking threads.
const CAREFUL: usize = 256;

/// Decides where calls of the chain begin.
#[derive(Debug, Default)]
pub(crate) struct FastLane {
    /// How many of the next calls begin on blocking threads.
    careful: AtomicUsize,
}

impl FastLane {
    /// Whether the next call begins on the caller's thread.
    pub(super) fn is_open(&self) -> bool {
        // That calls overtake each other here does no harm.
        let one_less = |careful: usize| careful.checked_sub(1);
        let closed = self
            .careful
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        closed.is_err()
    }

    /// A call was slow.
    pub(super) fn close(&self) {
        self.careful.store(CAREFUL, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;

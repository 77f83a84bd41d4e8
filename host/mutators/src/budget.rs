//! How much of the host's memory the plugins of a chain hold together, from call to call.
//!
//! Each plugin has bounds of its own, and a chain of many plugins at these bounds would still fill the operator's container; a
//! reload has two chains.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::{CHAIN_KEPT_BYTES, CHAIN_PATHS_BYTES, SEGMENT_BYTES};

/// What is left for the plugins of one chain.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    paths: AtomicUsize,
    kept: AtomicUsize,
}

impl Default for MemoryBudget {
    fn default() -> Self {
        Self {
            paths: CHAIN_PATHS_BYTES.into(),
            kept: CHAIN_KEPT_BYTES.into(),
        }
    }
}

impl MemoryBudget {
    /// For paths that a plugin needs or is granted: without them it cannot be part of the chain.
    pub(crate) fn take_for_paths(&self, paths: &[String]) -> bool {
        let segments = paths.iter().map(|path| path.matches('/').count()).sum();
        let bytes = paths.iter().map(String::len).sum();
        take(&self.paths, cost(bytes, segments))
    }

    /// For what only makes calls faster: without room it is not kept.
    pub(crate) fn take_to_keep(&self, bytes: usize) -> bool {
        take(&self.kept, bytes)
    }
}

/// The memory that paths take, with these bytes and segments.
pub(crate) fn cost(bytes: usize, segments: usize) -> usize {
    bytes.saturating_add(segments.saturating_mul(SEGMENT_BYTES))
}

fn take(left: &AtomicUsize, bytes: usize) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
        left.checked_sub(bytes)
    })
    .is_ok()
}

#[cfg(test)]
mod tests;

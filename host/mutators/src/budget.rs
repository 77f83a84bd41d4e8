//! How much of the host's memory the plugins of a chain may keep together between calls.
//!
//! Each plugin has limits of its own, but a chain of many plugins at their limits would still fill the operator's container.
//! During a reload two chains are in memory.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::{CHAIN_KEPT_BYTES, CHAIN_PATHS_BYTES, SEGMENT_BYTES};

/// The memory that is left for the plugins of one chain.
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
    /// Takes memory for the paths that a plugin needs or is granted; false if too little is left, and the chain cannot be loaded.
    pub(crate) fn take_for_paths(&self, paths: &[String]) -> bool {
        let segments = paths.iter().map(|path| path.matches('/').count()).sum();
        let bytes = paths.iter().map(String::len).sum();
        take(&self.paths, cost(bytes, segments))
    }

    /// Takes memory for something that only makes calls faster; false if too little is left, and it must not be kept.
    pub(crate) fn take_to_keep(&self, bytes: usize) -> bool {
        take(&self.kept, bytes)
    }
}

/// The memory that paths with these bytes and segments take.
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

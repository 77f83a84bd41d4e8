//! The memory of a plugin after it has prepared itself.
//!
//! Only the difference to a fresh instance is kept, and copied into each fresh instance before the call. So a plugin reads its
//! configuration only once, and still no call sees another: the copied memory was made before any pod.

use wasmtime::{Memory, Store};

use super::abi::broken;
use crate::limits::PREPARED_BYTES;
use crate::sandbox::Guest;

/// Bytes that are compared at once. Smaller blocks would make many short runs.
const BLOCK: usize = 64;
/// Memory that a run takes besides its bytes.
const RUN_BYTES: usize = 32;

/// The changes that a preparation made in a plugin's memory.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// The memory's size in bytes.
    size: usize,
    /// Runs of changed blocks: offset and content.
    runs: Vec<(usize, Box<[u8]>)>,
}

impl Prepared {
    /// The difference between two memories; none if it is too large. Added memory is compared with zeroes.
    pub(in crate::sandbox) fn of(before: &[u8], after: &[u8]) -> Option<Self> {
        let mut runs: Vec<(usize, Vec<u8>)> = Vec::new();
        let mut kept = 0;
        for (index, block) in after.chunks(BLOCK).enumerate() {
            let start = index * BLOCK;
            let is_same = match before.get(start..start + block.len()) {
                Some(old) => old == block,
                None => block.iter().all(|byte| *byte == 0),
            };
            if is_same {
                continue;
            }
            kept += block.len();
            if kept > PREPARED_BYTES {
                return None;
            }
            match runs.last_mut() {
                Some((at, run)) if *at + run.len() == start => run.extend_from_slice(block),
                _ => runs.push((start, block.to_vec())),
            }
        }
        Some(Self {
            size: after.len(),
            runs: runs.into_iter().map(|(at, run)| (at, run.into())).collect(),
        })
    }

    /// How much of the host's memory it takes.
    pub(in crate::sandbox) fn bytes(&self) -> usize {
        let runs = self.runs.iter().map(|(_, run)| run.len() + RUN_BYTES);
        runs.sum()
    }

    /// Copies the changes into the memory of a fresh instance.
    pub(super) fn restore(&self, memory: Memory, store: &mut Store<Guest>) -> wasmtime::Result<()> {
        let missing = self.size.saturating_sub(memory.data_size(&*store)) as u64;
        if missing > 0 {
            let page = memory.page_size(&*store);
            memory.grow(&mut *store, missing / page)?;
        }
        let bytes = memory.data_mut(&mut *store);
        for (at, run) in &self.runs {
            let place = bytes.get_mut(*at..*at + run.len());
            place
                .ok_or_else(|| broken("memory smaller than when it was prepared"))?
                .copy_from_slice(run);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

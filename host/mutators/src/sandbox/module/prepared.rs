//! A plugin's memory as its preparation has left it.
//!
//! Only what differs from a fresh instance is kept, and laid over each fresh instance before it is called: a plugin reads its
//! configuration once, and yet no call sees anything of another, for what is laid over comes from a time before any pod.

use wasmtime::{Memory, Store};

use super::abi::broken;
use crate::limits::PREPARED_BYTES;
use crate::sandbox::Guest;

/// What is compared at once. Runs of bytes as they come would be many and short.
const BLOCK: usize = 64;
/// What a run takes besides its bytes.
const RUN_BYTES: usize = 32;

/// What a preparation has changed in a plugin's memory.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// The memory's size in bytes.
    size: usize,
    /// Where each run of changed blocks begins, and what is in it.
    runs: Vec<(usize, Box<[u8]>)>,
}

impl Prepared {
    /// The difference between two memories; none if it is too large. Memory that was added counts as changed from zeroes.
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

    /// What it takes in the host's memory.
    pub(in crate::sandbox) fn bytes(&self) -> usize {
        let runs = self.runs.iter().map(|(_, run)| run.len() + RUN_BYTES);
        runs.sum()
    }

    /// Brings the memory of a fresh instance to what was kept.
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
                .ok_or_else(|| broken("memory smaller than it was prepared"))?
                .copy_from_slice(run);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

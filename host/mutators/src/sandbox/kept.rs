//! What is kept of a plugin between its calls, within the budget of its chain: never anything of a pod.
//!
//! - The memory after it has prepared itself. Only the difference to a fresh instance is kept, and copied into each fresh instance
//!   before the call. So a plugin reads its configuration only once, and still no call sees another: the copied memory was made before
//!   any pod.
//! - The field lists of its views. A plugin names the same fields for each pod, and parsing them takes a quarter of the time of a view.

use std::sync::OnceLock;

use podloom_pod_path::Fields;
use wasmtime::{Memory, Store};

use super::Guest;
use super::abi::broken;
use crate::limits::{self, MemoryBudget, PREPARED_BYTES};

/// Bytes that are compared at once. Smaller blocks would make many short runs.
const BLOCK: usize = 64;
/// Memory that a run takes besides its bytes.
const RUN_BYTES: usize = 32;

/// The changes that a preparation made in a plugin's memory.
#[derive(Debug)]
pub(super) struct Prepared {
    /// The memory's size in bytes.
    size: usize,
    /// Runs of changed blocks: offset and content.
    runs: Vec<(usize, Box<[u8]>)>,
}

impl Prepared {
    /// The difference between two memories; none if it is too large. Added memory is compared with zeroes.
    pub(super) fn of(before: &[u8], after: &[u8]) -> Option<Self> {
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
    pub(super) fn bytes(&self) -> usize {
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

/// How many lists are kept for a plugin. Others are parsed in each call.
const LISTS: usize = 4;
/// Longer lists are not kept, so a plugin cannot fill the host's memory.
const LIST_BYTES: usize = 16 << 10;
/// Lists with more segments are not kept either. The longest list of the standard plugins has 240.
const LIST_SEGMENTS: usize = 512;

/// Filled from the front and never emptied.
#[derive(Debug, Default)]
pub(super) struct Views([OnceLock<Fields>; LISTS]);

impl Views {
    pub(super) fn find(&self, is_wanted: impl Fn(&[String]) -> bool) -> Option<&Fields> {
        let kept = self.0.iter().map_while(OnceLock::get);
        kept.into_iter().find(|fields| is_wanted(fields.names()))
    }

    /// Keeps a list that was not found. Two calls at the same time may both keep it, which does no harm.
    pub(super) fn keep(&self, fields: Fields, budget: &MemoryBudget) {
        let bytes: usize = fields.names().iter().map(String::len).sum();
        let segments = fields.segments();
        let is_full = self.0.iter().all(|slot| slot.get().is_some());
        if bytes <= LIST_BYTES
            && segments <= LIST_SEGMENTS
            && !is_full
            && budget.take_to_keep(limits::cost(bytes, segments))
        {
            // Dropped if other calls have filled the slots meanwhile.
            let _ = self
                .0
                .iter()
                .try_fold(fields, |fields, slot| match slot.set(fields) {
                    Ok(()) => Err(()),
                    Err(fields) => Ok(fields),
                });
        }
    }
}

#[cfg(test)]
mod tests;

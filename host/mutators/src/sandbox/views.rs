//! The field lists of a plugin's views, kept between calls.
//!
//! A plugin names the same fields for each pod, and parsing them takes a quarter of the time of a view.

use std::sync::OnceLock;

use podloom_pod_path::Fields;

use crate::budget::{self, MemoryBudget};

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
            && budget.take_to_keep(budget::cost(bytes, segments))
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

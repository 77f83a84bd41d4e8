//! For the search through all histories.

use std::fmt::Write;
use std::hash::DefaultHasher;
use std::sync::{Arc, Mutex};

use podloom_model::process::Hashed;
use podloom_turns::lock;

use super::Memory;

impl Memory {
    /// Returns a copy that changes independently.
    pub(crate) fn copied(&self) -> Self {
        Self(Arc::new(Mutex::new(lock(&self.0).clone())))
    }

    /// Hashes what is known.
    pub(crate) fn hash(&self, hasher: &mut DefaultHasher) {
        let known = lock(&self.0);
        let mut known: Vec<_> = known.iter().collect();
        known.sort_unstable_by_key(|(uid, _)| *uid);
        // Writing to a hasher never fails.
        let _ = write!(Hashed(hasher), "{known:?}");
    }
}

//! The memory, for the search through all histories.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::DefaultHasher;

use podloom_model::process::Hashed;

use super::*;

impl WarmMemory {
    /// Returns a copy that changes independently.
    pub(crate) fn copied(&self) -> Self {
        Self(Arc::new(Mutex::new(lock(&self.0).clone())))
    }

    /// Makes this the recipe of a pool.
    pub(crate) fn has_recipe(&self, pool: Pool, recipe: Recipe) {
        let recipe = ((None, None), Instant::now(), Ok(Arc::new(recipe)));
        lock(&self.0).pools.entry(pool).or_default().recipe = Some(recipe);
    }

    /// Hashes what is known of sessions and their pods.
    pub(crate) fn hash(&self, hasher: &mut DefaultHasher) {
        let known = lock(&self.0);
        let mut reserved: Vec<_> = known.reserved.keys().collect();
        reserved.sort_unstable();
        let taken: BTreeMap<_, _> = known.taken.iter().collect();
        let doubtful: BTreeMap<_, _> = known.doubtful.iter().collect();
        let _ = write!(Hashed(hasher), "{reserved:?}{taken:?}{doubtful:?}");
    }
}

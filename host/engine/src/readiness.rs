//! Reports which caches are not yet filled.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use podloom_turns::lock;

/// The caches that are not yet filled; shared with the handler of readiness probes.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<Mutex<BTreeSet<String>>>);

/// A cache that is not yet filled, until this is dropped.
pub struct Awaited {
    readiness: Readiness,
    cache: String,
}

impl Readiness {
    /// Returns the names of the caches that are not yet filled, for people.
    #[must_use]
    pub fn awaited(&self) -> Vec<String> {
        lock(&self.0).iter().cloned().collect()
    }

    /// Reports a cache as not yet filled until the returned value is dropped. The name is for people.
    #[must_use]
    pub fn await_cache(&self, cache: String) -> Awaited {
        lock(&self.0).insert(cache.clone());
        Awaited {
            readiness: self.clone(),
            cache,
        }
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        lock(&self.readiness.0).remove(&self.cache);
    }
}

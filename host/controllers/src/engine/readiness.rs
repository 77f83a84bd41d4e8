//! Which caches are not yet filled.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Tells whether the controllers know the cluster; shared with whoever answers probes.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<Mutex<BTreeSet<String>>>);

/// A cache that is awaited; it is no longer when this is dropped, as a controller that stopped awaits nothing.
pub struct Awaited {
    readiness: Readiness,
    cache: String,
}

impl Readiness {
    /// Returns the caches that are still awaited, for people.
    #[must_use]
    pub fn awaited(&self) -> Vec<String> {
        self.lock().iter().cloned().collect()
    }

    /// Notes that a cache is awaited until what is returned is dropped; the name is for people.
    #[must_use]
    pub fn await_cache(&self, cache: String) -> Awaited {
        self.lock().insert(cache.clone());
        Awaited {
            readiness: self.clone(),
            cache,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.readiness.lock().remove(&self.cache);
    }
}

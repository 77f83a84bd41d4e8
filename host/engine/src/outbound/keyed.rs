//! One semaphore for each key: each host, or each tenant.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, Weak};

use podloom_turns::lock;
use tokio::sync::Semaphore;

/// Semaphores with the same number of permits, one for each key.
pub(super) struct KeyedSemaphores<K> {
    permits: usize,
    /// Those in use. Others are dropped at the next request for a new key.
    semaphores: Mutex<HashMap<K, Weak<Semaphore>>>,
}

impl<K: Eq + Hash> KeyedSemaphores<K> {
    /// Returns semaphores of so many permits for each key.
    pub(super) fn new(permits: usize) -> Self {
        Self {
            permits,
            semaphores: Mutex::default(),
        }
    }

    /// Returns the semaphore of a key. It is kept for as long as a permit of it, or what is returned, is held.
    pub(super) fn of(&self, key: K) -> Arc<Semaphore> {
        let mut semaphores = lock(&self.semaphores);
        if let Some(semaphore) = semaphores.get(&key).and_then(Weak::upgrade) {
            return semaphore;
        }
        semaphores.retain(|_, semaphore| semaphore.strong_count() > 0);
        let semaphore = Arc::new(Semaphore::new(self.permits));
        semaphores.insert(key, Arc::downgrade(&semaphore));
        semaphore
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.semaphores.lock().unwrap().len()
    }
}

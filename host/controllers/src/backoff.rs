//! How long each object waits after it failed.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(30);

/// Counts the failures of objects in a row: each waits twice as long as the one before, and nobody waits for another.
pub(crate) struct Backoff<K>(Mutex<HashMap<K, u32>>);

impl<K: Eq + Hash> Backoff<K> {
    pub(crate) fn new() -> Self {
        Self(Mutex::default())
    }

    /// Notes a failure, and returns how long to wait.
    pub(crate) fn failed(&self, id: K) -> Duration {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = failures.entry(id).or_insert(0);
        let wait = FIRST.saturating_mul(2_u32.saturating_pow(*count));
        *count = count.saturating_add(1);
        wait.min(LONGEST)
    }

    /// Forgets the failures of an object.
    pub(crate) fn succeeded(&self, id: &K) {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failures.remove(id);
    }
}

#[cfg(test)]
mod tests;

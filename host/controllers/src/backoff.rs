//! How long each object waits after it failed, and each watch after it broke.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kube::runtime::utils::{Backoff as WaitBackoff, ResetTimerBackoff};
use tokio::time::Instant;

const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(30);
/// After so long without another failure an object is forgotten: most of them are gone, and nobody tells.
const FORGET: Duration = Duration::from_mins(5);
/// The longest that a watch stays broken; twice that with its jitter.
const LONGEST_BLIND: Duration = Duration::from_secs(4);
/// After so long without an error, a watch starts anew with the shortest wait.
const PEACE: Duration = Duration::from_secs(30);

/// Counts the failures of objects in a row: each waits twice as long as the one before, and nobody waits for another.
pub(crate) struct Backoff<K>(Mutex<HashMap<K, Failures>>);

/// The failures of one object in a row.
struct Failures {
    count: u32,
    last: Instant,
}

impl<K: Eq + Hash> Backoff<K> {
    pub(crate) fn new() -> Self {
        Self(Mutex::default())
    }

    /// Notes a failure, and returns how long to wait.
    pub(crate) fn failed(&self, id: K) -> Duration {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failures.retain(|_, failures| failures.last.elapsed() < FORGET);
        let last = Instant::now();
        let failures = failures.entry(id).or_insert(Failures { count: 0, last });
        let wait = FIRST.saturating_mul(2_u32.saturating_pow(failures.count));
        failures.count = failures.count.saturating_add(1);
        failures.last = last;
        wait.min(LONGEST)
    }

    /// Forgets the failures of an object.
    pub(crate) fn succeeded(&self, id: &K) {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failures.remove(id);
    }
}

/// How long a watch waits after it broke.
///
/// kube's own backoff grows to more than half a minute, and is reset after two minutes of peace. An API server that restarts costs
/// each watch several errors in a row, so a second restart would leave us blind for long after it is back.
pub(crate) fn watch_backoff() -> ResetTimerBackoff<WatchBackoff> {
    ResetTimerBackoff::new(WatchBackoff::default(), PEACE)
}

/// Doubles, and is jittered so that a thousand clients do not come back at once.
pub(crate) struct WatchBackoff(Duration);

impl Default for WatchBackoff {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let wait = self.0;
        self.0 = wait.saturating_mul(2).min(LONGEST_BLIND);
        let share = u32::try_from(RandomState::new().hash_one(0_u8) % 1000).unwrap_or_default();
        Some(wait.saturating_add(wait.saturating_mul(share) / 1000))
    }
}

impl WaitBackoff for WatchBackoff {
    fn reset(&mut self) {
        self.0 = FIRST;
    }
}

#[cfg(test)]
mod tests;

//! Our own writes, until the caches show them.
//!
//! Watches lag behind writes. A plan from an older object than the one just written would undo or repeat the write. So no pass starts
//! before the cache shows our last write of the object. If that takes long, the watch may be dead, and the object is read from the API
//! server instead.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::core::ObjectMeta;
use tokio::time::Instant;

/// After this time without our write in the cache, the object is read from the API server. Busy watches lag for seconds.
const LAG_MAX: Duration = Duration::from_secs(30);
/// Objects that vanish without our doing, as when somebody removes our finalizer, are forgotten after this time.
const FORGET: Duration = Duration::from_hours(1);

/// How often such objects are removed: not at each write.
const SWEEP: Duration = Duration::from_mins(1);

/// The last write of each object.
pub(super) struct Recent(Mutex<Writes>);

struct Writes {
    /// By UID.
    of: HashMap<String, OwnWrite>,
    swept: Instant,
}

struct OwnWrite {
    /// The resourceVersion of the object after it.
    version: u64,
    at: Instant,
}

/// How a cached object compares with our last write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cached {
    /// As new as our last write, or newer.
    Current,
    /// Older than our last write: the watch lags.
    Behind,
    /// Older than our last write for so long that the watch may be dead.
    Stale,
}

impl Recent {
    /// Compares a cached object with our last write of it.
    pub(super) fn compare(&self, cached: &ObjectMeta) -> Cached {
        let mut writes = self.lock();
        let Some(write) = writes.of.get(uid(cached)) else {
            return Cached::Current;
        };
        if Some(write.version) <= version(cached) {
            writes.of.remove(uid(cached));
            return Cached::Current;
        }
        match write.at.elapsed() < LAG_MAX {
            true => Cached::Behind,
            false => Cached::Stale,
        }
    }

    /// Records the object as it is after our write.
    pub(super) fn wrote(&self, object: &ObjectMeta) {
        let at = Instant::now();
        let mut writes = self.lock();
        match version(object) {
            Some(version) => writes
                .of
                .insert(uid(object).to_owned(), OwnWrite { version, at }),
            // It cannot be compared, so nothing waits for it.
            None => writes.of.remove(uid(object)),
        };
        writes.sweep();
    }

    /// Forgets an object that is gone.
    pub(super) fn forget(&self, object: &ObjectMeta) {
        let mut writes = self.lock();
        writes.of.remove(uid(object));
        writes.sweep();
        if writes.of.is_empty() {
            writes.of.shrink_to_fit();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Writes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Recent {
    fn default() -> Self {
        Self(Mutex::new(Writes {
            of: HashMap::new(),
            swept: Instant::now(),
        }))
    }
}

impl Writes {
    fn sweep(&mut self) {
        if self.swept.elapsed() >= SWEEP {
            self.swept = Instant::now();
            self.of.retain(|_, write| write.at.elapsed() < FORGET);
        }
    }
}

fn uid(metadata: &ObjectMeta) -> &str {
    metadata.uid.as_deref().unwrap_or_default()
}

/// Resource versions of one kind are numbers that grow (KEP-5504).
fn version(metadata: &ObjectMeta) -> Option<u64> {
    metadata.resource_version.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests;

//! Our own writes, until the caches show them.
//!
//! Watches lag behind writes. A plan made on an older object than the one just written would undo or repeat what was done. So an
//! object is left alone until its cache shows our last write. If the cache does not for long, its watch may be dead, and the API
//! server is asked: an old cache is never taken for the truth.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::core::ObjectMeta;
use tokio::time::Instant;

/// After this time without our write in the cache, the API server is asked. Busy watches lag for seconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// Objects that vanish without us, as when somebody takes our finalizer off, are forgotten after this time.
const FORGET: Duration = Duration::from_hours(1);

/// How often the forgotten ones are looked for, not at each write.
const SWEEP: Duration = Duration::from_mins(1);

/// The last write of each object.
pub(super) struct Recent(Mutex<Writes>);

struct Writes {
    /// By UID.
    of: HashMap<String, Write>,
    swept: Instant,
}

struct Write {
    /// The resourceVersion that it gave the object.
    version: u64,
    at: Instant,
}

/// What a cached object is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cached {
    /// As new as our last write, or newer.
    Current,
    /// Older than our last write, as caches are for a moment.
    Behind,
    /// Older than our last write for so long that nobody knows whether the watch still lives.
    Stale,
}

impl Recent {
    /// Returns whether the cached object shows our last write of it.
    pub(super) fn compare(&self, cached: &ObjectMeta) -> Cached {
        let mut writes = self.lock();
        let Some(write) = writes.of.get(uid(cached)) else {
            return Cached::Current;
        };
        if Some(write.version) <= version(cached) {
            writes.of.remove(uid(cached));
            return Cached::Current;
        }
        match write.at.elapsed() < PATIENCE {
            true => Cached::Behind,
            false => Cached::Stale,
        }
    }

    /// Notes that we wrote the object, and that it is now like this.
    pub(super) fn wrote(&self, object: &ObjectMeta) {
        let at = Instant::now();
        let mut writes = self.lock();
        match version(object) {
            Some(version) => writes
                .of
                .insert(uid(object).to_owned(), Write { version, at }),
            // It cannot be compared, so it is never waited for.
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

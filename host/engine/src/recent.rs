//! Our own writes, until the caches show them.
//!
//! Watches lag behind writes. A plan from an older object than the one just written would undo or repeat the write. So no pass starts
//! before the cache shows our last write of the object. If that takes long, the watch may be dead, and the object is read from the API
//! server instead.
//!
//! The events of our own writes usually wake nobody: the pass that wrote went on with the API server's answer, which is the same object.
//! An event may come before the answer to its write. So what comes while a pass over its object runs is noted, and the end of the pass
//! decides.

use std::collections::{BTreeSet, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::Mutex;
use std::time::Duration;

use kube::core::ObjectMeta;
use podloom_turns::lock;
use tokio::time::Instant;

/// After this time without our write in the cache, the object is read from the API server. Busy watches lag for seconds.
const LAG_MAX: Duration = Duration::from_secs(30);
/// Objects that vanish without our doing, as when somebody removes our finalizer, are forgotten after this time.
const FORGET: Duration = Duration::from_hours(1);

/// The same for those whose end was our write: longer than any watch lags.
const FORGET_ENDED: Duration = Duration::from_mins(2);
/// Stands for a version that no object ever has.
const GONE: u64 = u64::MAX;

/// How often such objects are removed: not at each write.
const SWEEP: Duration = Duration::from_mins(1);

/// The last write of each object.
pub(super) struct Recent(Mutex<Writes>);

#[derive(Clone)]
struct Writes {
    /// By UID.
    of: HashMap<String, OwnWrite>,
    /// The versions that events have shown since the pass over an object began, by its UID. None is one that cannot be compared.
    running: HashMap<String, Vec<Option<u64>>>,
    swept: Instant,
}

#[derive(Clone)]
struct OwnWrite {
    /// The resourceVersion of the object after it.
    version: u64,
    /// Those of earlier writes of the same pass.
    earlier: Vec<u64>,
    at: Instant,
    /// Whether its event must wake the object.
    is_awaited: bool,
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
    /// Returns a copy that changes independently.
    pub(super) fn copied(&self) -> Self {
        Self(Mutex::new(lock(&self.0).clone()))
    }

    /// Hashes what is remembered at a time, for tests: equal ones answer equally.
    pub(super) fn hash(&self, now: Instant, hasher: &mut impl Hasher) {
        let writes = lock(&self.0);
        let of = writes.of.iter().map(|(uid, write)| {
            let is_old = now.saturating_duration_since(write.at) >= LAG_MAX;
            let order = (uid, write.version, &write.earlier);
            (order, write.is_awaited, is_old)
        });
        of.collect::<BTreeSet<_>>().hash(hasher);
        let running = writes.running.iter();
        running.collect::<BTreeSet<_>>().hash(hasher);
    }

    /// Compares a cached object with our last write of it.
    pub(super) fn compare(&self, cached: &ObjectMeta) -> Cached {
        let mut writes = lock(&self.0);
        let Some(write) = writes.of.get_mut(uid(cached)) else {
            return Cached::Current;
        };
        if Some(write.version) <= version(cached) {
            writes.of.remove(uid(cached));
            return Cached::Current;
        }
        // This pass decides nothing, so what it was for is left to the next.
        write.is_awaited = true;
        match write.at.elapsed() < LAG_MAX {
            true => Cached::Behind,
            false => Cached::Stale,
        }
    }

    /// Records the object as it is after our write.
    pub(super) fn wrote(&self, object: &ObjectMeta) {
        let mut writes = lock(&self.0);
        let before = writes.of.remove(uid(object));
        // If it cannot be compared, nothing waits for it.
        if let Some(version) = version(object) {
            let earlier = before.map_or_else(Vec::new, |mut before| {
                before.earlier.push(before.version);
                before.earlier
            });
            writes.insert(object, version, earlier);
        }
        writes.sweep();
    }

    /// Notes that a pass over an object begins.
    pub(super) fn begin(&self, object: &ObjectMeta) {
        let mut writes = lock(&self.0);
        writes.running.insert(uid(object).to_owned(), Vec::new());
    }

    /// Notes that a pass over an object has ended. Returns whether an event that came meanwhile needs another one.
    pub(super) fn end(&self, object: &ObjectMeta) -> bool {
        let mut writes = lock(&self.0);
        let shown = writes.running.remove(uid(object)).unwrap_or_default();
        !shown.iter().all(|shown| writes.is_idle(object, *shown))
    }

    /// Returns whether an event of a change wakes nobody: it shows exactly what we wrote, or a pass is running, whose end decides.
    pub(super) fn is_idle(&self, shown: &ObjectMeta) -> bool {
        let mut writes = lock(&self.0);
        let version = version(shown);
        if let Some(running) = writes.running.get_mut(uid(shown)) {
            running.push(version);
            return true;
        }
        writes.is_idle(shown, version)
    }

    /// Makes the event of our last write of an object wake it, also if it came already.
    pub(super) fn needs_event(&self, object: &ObjectMeta) {
        let mut writes = lock(&self.0);
        if let Some(write) = writes.of.get_mut(uid(object)) {
            write.is_awaited = true;
        }
    }

    /// Records that our write was the end of an object: whatever the cache still shows of it is old. No other object has its UID.
    pub(super) fn ended(&self, object: &ObjectMeta) {
        let mut writes = lock(&self.0);
        writes.insert(object, GONE, Vec::new());
        writes.sweep();
    }

    /// Forgets an object that may be gone.
    pub(super) fn forget(&self, object: &ObjectMeta) {
        let mut writes = lock(&self.0);
        writes.of.remove(uid(object));
        writes.sweep();
        if writes.of.is_empty() {
            writes.of.shrink_to_fit();
        }
    }
}

impl Default for Recent {
    fn default() -> Self {
        Self(Mutex::new(Writes {
            of: HashMap::new(),
            running: HashMap::new(),
            swept: Instant::now(),
        }))
    }
}

impl OwnWrite {
    /// Whether the event with this version needs no pass. Before the last version is shown, a pass could decide nothing.
    fn is_idle(&self, version: u64) -> bool {
        self.earlier.contains(&version) || (self.version == version && !self.is_awaited)
    }
}

impl Writes {
    fn insert(&mut self, object: &ObjectMeta, version: u64, earlier: Vec<u64>) {
        let write = OwnWrite {
            version,
            earlier,
            at: Instant::now(),
            is_awaited: false,
        };
        self.of.insert(uid(object).to_owned(), write);
    }

    /// Whether a version that an event shows needs no pass.
    fn is_idle(&self, object: &ObjectMeta, shown: Option<u64>) -> bool {
        let both = self.of.get(uid(object)).zip(shown);
        both.is_some_and(|(write, version)| write.is_idle(version))
    }

    fn sweep(&mut self) {
        if self.swept.elapsed() >= SWEEP {
            self.swept = Instant::now();
            self.of.retain(|_, write| {
                let forget = match write.version {
                    GONE => FORGET_ENDED,
                    _ => FORGET,
                };
                write.at.elapsed() < forget
            });
            self.of.shrink_to_fit();
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

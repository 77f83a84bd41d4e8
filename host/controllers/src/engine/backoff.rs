//! How long an object waits after a failure, and a watch after it broke.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kube::core::ObjectMeta;
use kube::runtime::utils::{Backoff as WaitBackoff, ResetTimerBackoff};
use tokio::time::Instant;

/// How long a watch waits after its first error.
const WATCH_FIRST: Duration = Duration::from_millis(200);
/// How long failures are remembered at least.
const FORGET: Duration = Duration::from_mins(5);
/// How often old failures are removed: with thousands of failing objects, not at each failure.
const SWEEP: Duration = Duration::from_mins(1);
/// How long a watch waits at most; twice that with its jitter.
const WATCH_LONGEST: Duration = Duration::from_secs(4);
/// After this time without an error, the waits of a watch restart with the shortest.
const WATCH_RESET: Duration = Duration::from_secs(30);

/// Counts the consecutive failures of each object, and doubles its wait with each.
///
/// The wait is a gate, not only a time to come back. A pass that fails may have written a status, and the event of that write wakes
/// the object at once: without the gate, that would be the next try, and so on.
pub(super) struct Backoff {
    waits: Waits,
    objects: Mutex<Objects>,
}

/// How long an object waits after consecutive failures: twice as long each time.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    /// After the first failure.
    pub first: Duration,
    /// At most.
    pub longest: Duration,
}

impl Waits {
    /// For kinds that only send requests to the API server: 200 ms at first, 30 s at most.
    pub const DEFAULT: Self = Self {
        first: Duration::from_millis(200),
        longest: Duration::from_secs(30),
    };

    /// After this time without another failure, an object is forgotten: most are deleted, which is not reported here. It is longer than
    /// any wait.
    fn forget(self) -> Duration {
        self.longest.saturating_mul(2).max(FORGET)
    }
}

struct Objects {
    /// By UID, so that a new object of the same name starts without its predecessor's wait.
    failing: HashMap<String, Failures>,
    swept: Instant,
}

/// The consecutive failures of one object.
struct Failures {
    count: u32,
    last: Instant,
    closed_until: Instant,
    requested: Requested,
}

/// What was requested of an object when it failed. If that changes, the object is tried at once, and its waits start over.
#[derive(PartialEq, Eq)]
struct Requested {
    generation: Option<i64>,
    deleted: bool,
}

impl Backoff {
    pub(super) fn new(waits: Waits) -> Self {
        Self {
            waits,
            objects: Mutex::new(Objects {
                failing: HashMap::new(),
                swept: Instant::now(),
            }),
        }
    }

    /// Returns how long an object must still wait, whatever woke it. One that was deleted or edited since it failed must not wait.
    pub(super) fn rest(&self, object: &ObjectMeta) -> Option<Duration> {
        self.with(|objects| {
            let failures = objects.failing.get(uid(object))?;
            let rest = failures
                .closed_until
                .checked_duration_since(Instant::now())?;
            (!rest.is_zero() && failures.requested == Requested::of(object)).then_some(rest)
        })
    }

    /// Records a failure and returns how long the object waits, at most `longest`.
    pub(super) fn failed(&self, object: &ObjectMeta, longest: Duration) -> Duration {
        self.count(object, |wait| jittered(wait).min(longest), Gate::Closed)
    }

    /// Records a conflict with another writer, and returns when to try again at the latest. The event of the other write may wake the
    /// object earlier.
    pub(super) fn conflicted(&self, object: &ObjectMeta) -> Duration {
        self.count(object, jittered, Gate::Open)
    }

    /// Forgets the failures of an object.
    pub(super) fn succeeded(&self, object: &ObjectMeta) {
        self.with(|objects| objects.failing.remove(uid(object)));
    }

    fn count(
        &self,
        object: &ObjectMeta,
        wait: impl Fn(Duration) -> Duration,
        gate: Gate,
    ) -> Duration {
        let now = Instant::now();
        self.with(|objects| {
            objects.sweep(now, self.waits.forget());
            let failures = objects
                .failing
                .entry(uid(object).to_owned())
                .or_insert(Failures {
                    count: 0,
                    last: now,
                    closed_until: now,
                    requested: Requested::of(object),
                });
            if failures.requested != Requested::of(object) {
                failures.count = 0;
            }
            let doubled = self
                .waits
                .first
                .saturating_mul(2_u32.saturating_pow(failures.count));
            let wait = wait(doubled.min(self.waits.longest));
            failures.count = failures.count.saturating_add(1);
            failures.last = now;
            failures.requested = Requested::of(object);
            failures.closed_until = match gate {
                Gate::Closed => now.checked_add(wait).unwrap_or(now),
                Gate::Open => now,
            };
            wait
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Objects) -> T) -> T {
        work(&mut self.objects.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whether an event may start a pass before the wait is over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gate {
    Open,
    Closed,
}

impl Objects {
    fn sweep(&mut self, now: Instant, forget: Duration) {
        if now.duration_since(self.swept) >= SWEEP {
            self.swept = now;
            self.failing
                .retain(|_, failures| now.duration_since(failures.last) < forget);
        }
    }
}

impl Requested {
    fn of(object: &ObjectMeta) -> Self {
        Self {
            generation: object.generation,
            deleted: object.deletion_timestamp.is_some(),
        }
    }
}

fn uid(object: &ObjectMeta) -> &str {
    object.uid.as_deref().unwrap_or_default()
}

/// Adds up to a tenth to a wait, so that a thousand objects do not come back at once.
pub(crate) fn jittered(wait: Duration) -> Duration {
    let random = RandomState::new().hash_one(0_u8);
    let share = random % 1000;
    wait.saturating_add(wait.saturating_mul(u32::try_from(share).unwrap_or_default()) / 10_000)
}

/// How long a watch waits after errors.
///
/// kube's own backoff grows to more than half a minute, and restarts only after two minutes without an error. A restart of the API
/// server costs each watch several errors, so after a second restart watches would stay broken long after it is back.
pub(super) fn watch_backoff() -> ResetTimerBackoff<WatchBackoff> {
    ResetTimerBackoff::new(WatchBackoff::default(), WATCH_RESET)
}

/// Doubles each time, with jitter, so that a thousand clients do not come back at once.
pub(super) struct WatchBackoff(Duration);

impl Default for WatchBackoff {
    fn default() -> Self {
        Self(WATCH_FIRST)
    }
}

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let wait = self.0;
        self.0 = wait.saturating_mul(2).min(WATCH_LONGEST);
        let share = u32::try_from(RandomState::new().hash_one(0_u8) % 1000).unwrap_or_default();
        Some(wait.saturating_add(wait.saturating_mul(share) / 1000))
    }
}

impl WaitBackoff for WatchBackoff {
    fn reset(&mut self) {
        self.0 = WATCH_FIRST;
    }
}

#[cfg(test)]
mod tests;

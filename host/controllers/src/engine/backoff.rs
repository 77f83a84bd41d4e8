//! How long each object waits after it failed, and each watch after it broke.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kube::core::ObjectMeta;
use kube::runtime::utils::{Backoff as WaitBackoff, ResetTimerBackoff};
use tokio::time::Instant;

/// How long a watch waits after it broke once.
const FIRST_BLIND: Duration = Duration::from_millis(200);
/// How long failures are remembered at least.
const FORGET: Duration = Duration::from_mins(5);
/// How often the forgotten ones are looked for: with thousands that fail, not at each failure.
const SWEEP: Duration = Duration::from_mins(1);
/// The longest that a watch stays broken; twice that with its jitter.
const LONGEST_BLIND: Duration = Duration::from_secs(4);
/// After so long without an error, a watch starts anew with the shortest wait.
const PEACE: Duration = Duration::from_secs(30);

/// Counts the failures of objects in a row: each waits twice as long as the one before, and nobody waits for another.
///
/// The wait is a gate, not only a time to come back. A pass that fails may have written a status, and that write's own event
/// wakes the object at once: without the gate it would be the next try, and so on.
pub(super) struct Backoff {
    waits: Waits,
    objects: Mutex<Objects>,
}

/// How long an object waits after failures in a row: each time twice as long.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    /// After the first.
    pub first: Duration,
    /// At most.
    pub longest: Duration,
}

impl Waits {
    /// What suits requests to the API server: 200 ms at first, 30 s at most.
    pub const DEFAULT: Self = Self {
        first: Duration::from_millis(200),
        longest: Duration::from_secs(30),
    };

    /// After so long without another failure an object is forgotten: most of them are gone, and nobody says so. One that waits is not.
    fn forget(self) -> Duration {
        self.longest.saturating_mul(2).max(FORGET)
    }
}

struct Objects {
    /// By UID, so that a new object of the same name starts without its predecessor's wait.
    failing: HashMap<String, Failures>,
    swept: Instant,
}

/// The failures of one object in a row.
struct Failures {
    count: u32,
    last: Instant,
    closed_until: Instant,
    asked: Asked,
}

/// What an object asked for when it failed. An object that asks for something else is tried at once, and its waits start over.
#[derive(PartialEq, Eq)]
struct Asked {
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

    /// Returns how long an object still has to wait, whatever woke it. One that was deleted or edited since it failed need not.
    pub(super) fn rest(&self, object: &ObjectMeta) -> Option<Duration> {
        self.with(|objects| {
            let failures = objects.failing.get(uid(object))?;
            let rest = failures
                .closed_until
                .checked_duration_since(Instant::now())?;
            (!rest.is_zero() && failures.asked == Asked::by(object)).then_some(rest)
        })
    }

    /// Notes a failure and returns how long the object waits, at most `longest`.
    pub(super) fn failed(&self, object: &ObjectMeta, longest: Duration) -> Duration {
        self.count(object, |wait| jittered(wait).min(longest), Gate::Closed)
    }

    /// Notes that somebody else wrote the object meanwhile, and returns when to look at the latest: the event of that other write
    /// may come earlier, and it is what this object waits for.
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
                    asked: Asked::by(object),
                });
            if failures.asked != Asked::by(object) {
                failures.count = 0;
            }
            let doubled = self
                .waits
                .first
                .saturating_mul(2_u32.saturating_pow(failures.count));
            let wait = wait(doubled.min(self.waits.longest));
            failures.count = failures.count.saturating_add(1);
            failures.last = now;
            failures.asked = Asked::by(object);
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

/// Whether events may wake an object before its wait is over.
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

impl Asked {
    fn by(object: &ObjectMeta) -> Self {
        Self {
            generation: object.generation,
            deleted: object.deletion_timestamp.is_some(),
        }
    }
}

fn uid(object: &ObjectMeta) -> &str {
    object.uid.as_deref().unwrap_or_default()
}

/// Spreads a wait over a tenth more, so that a thousand objects do not come back at once.
pub(super) fn jittered(wait: Duration) -> Duration {
    let random = RandomState::new().hash_one(0_u8);
    let share = random % 1000;
    wait.saturating_add(wait.saturating_mul(u32::try_from(share).unwrap_or_default()) / 10_000)
}

/// How long a watch waits after it broke.
///
/// kube's own backoff grows to more than half a minute, and is reset after two minutes of peace. An API server that restarts costs
/// each watch several errors in a row, so a second restart would leave us blind for long after it is back.
pub(super) fn watch_backoff() -> ResetTimerBackoff<WatchBackoff> {
    ResetTimerBackoff::new(WatchBackoff::default(), PEACE)
}

/// Doubles, and is jittered so that a thousand clients do not come back at once.
pub(super) struct WatchBackoff(Duration);

impl Default for WatchBackoff {
    fn default() -> Self {
        Self(FIRST_BLIND)
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
        self.0 = FIRST_BLIND;
    }
}

#[cfg(test)]
mod tests;

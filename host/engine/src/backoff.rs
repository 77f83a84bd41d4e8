//! How long an object waits after a failure, and a watch after it broke.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;
use std::time::Duration;

use kube::core::ObjectMeta;
use kube::runtime::utils::Backoff as WaitBackoff;
use podloom_turns::lock;
use tokio::time::Instant;

/// How long a watch waits after its first error.
const WATCH_FIRST: Duration = Duration::from_millis(200);
/// How long failures are remembered at least.
const FORGET: Duration = Duration::from_mins(5);
/// How often old failures are removed: with thousands of failing objects, not at each failure.
const SWEEP: Duration = Duration::from_mins(1);
/// How long a watch waits at most; twice that with its jitter.
const WATCH_LONGEST: Duration = Duration::from_secs(4);
/// A watch that worked for so long before it broke starts over with the shortest wait. So however it breaks, it begins anew at most a
/// few times in this time.
const WATCH_WORKED: Duration = Duration::from_secs(5);

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
    /// Before that time, no event starts a pass.
    closed_until: Instant,
    requested: Requested,
}

/// What was requested of an object when it failed: its generation, and whether it is being deleted. If that changes, the object is tried
/// at once, and its waits start over.
type Requested = (Option<i64>, bool);

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
            (!rest.is_zero() && failures.requested == requested(object)).then_some(rest)
        })
    }

    /// Records a failure and returns how long the object waits, at most `longest`.
    pub(super) fn failed(&self, object: &ObjectMeta, longest: Duration) -> Duration {
        let now = Instant::now();
        self.count(object, now, |failures, wait| {
            let wait = jittered(wait).min(longest);
            failures.closed_until = now.checked_add(wait).unwrap_or(now);
            wait
        })
    }

    /// Records a conflict with another writer, and returns when to try again at the latest. The event of the other write may wake the
    /// object earlier.
    pub(super) fn conflicted(&self, object: &ObjectMeta) -> Duration {
        let now = Instant::now();
        self.count(object, now, |failures, wait| {
            failures.closed_until = now;
            jittered(wait)
        })
    }

    /// Forgets the failures of an object.
    pub(super) fn succeeded(&self, object: &ObjectMeta) {
        self.with(|objects| objects.failing.remove(uid(object)));
    }

    fn count(
        &self,
        object: &ObjectMeta,
        now: Instant,
        wait: impl FnOnce(&mut Failures, Duration) -> Duration,
    ) -> Duration {
        let (Waits { first, longest }, requested) = (self.waits, requested(object));
        self.with(|objects| {
            objects.sweep(now, self.waits.forget());
            let failures = objects.failing.entry(uid(object).to_owned());
            let failures = failures.or_insert(Failures {
                count: 0,
                last: now,
                closed_until: now,
                requested,
            });
            if failures.requested != requested {
                failures.count = 0;
            }
            let doubled = first.saturating_mul(2_u32.saturating_pow(failures.count));
            failures.count = failures.count.saturating_add(1);
            (failures.last, failures.requested) = (now, requested);
            wait(failures, doubled.min(longest))
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Objects) -> T) -> T {
        work(&mut lock(&self.objects))
    }
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

fn requested(object: &ObjectMeta) -> Requested {
    (object.generation, object.deletion_timestamp.is_some())
}

fn uid(object: &ObjectMeta) -> &str {
    object.uid.as_deref().unwrap_or_default()
}

/// Adds up to a tenth to a wait, so that a thousand objects do not come back at once.
pub fn jittered(wait: Duration) -> Duration {
    wait.saturating_add(wait.saturating_mul(random()) / 10_000)
}

/// Less than a thousand.
fn random() -> u32 {
    u32::try_from(RandomState::new().hash_one(0_u8) % 1000).unwrap_or_default()
}

/// How long a watch waits after errors: twice as long each time, with jitter, so that a thousand clients do not come back at once.
///
/// kube's own waits grow to more than half a minute, and a restart of the API server costs each watch several errors, so after a second
/// restart watches would stay broken long after it is back.
pub(super) struct WatchBackoff {
    longest: Duration,
    next: Duration,
    /// When the last wait was over.
    begun: Option<Instant>,
}

impl WatchBackoff {
    /// Waits that grow up to this one, or twice that with jitter.
    pub(super) fn up_to(longest: Duration) -> Self {
        Self {
            longest,
            next: WATCH_FIRST,
            begun: None,
        }
    }

    /// Returns how long to wait before the next attempt: not at all if it is the first one, or if the one before lasted a while.
    pub(super) fn before_attempt(&mut self) -> Duration {
        let now = Instant::now();
        let is_short = |begun| now.saturating_duration_since(begun) < WATCH_WORKED;
        if self.begun.is_some_and(is_short) {
            return self.next().unwrap_or_default();
        }
        *self = Self {
            begun: Some(now),
            ..Self::up_to(self.longest)
        };
        Duration::ZERO
    }
}

impl Default for WatchBackoff {
    fn default() -> Self {
        Self::up_to(WATCH_LONGEST)
    }
}

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let has_worked = |begun: Instant| now.saturating_duration_since(begun) >= WATCH_WORKED;
        if self.begun.is_some_and(has_worked) {
            self.next = WATCH_FIRST;
        }
        let jitter = self.next.saturating_mul(random()) / 1000;
        let wait = self.next.saturating_add(jitter);
        self.next = self.next.saturating_mul(2).min(self.longest);
        self.begun = now.checked_add(wait);
        Some(wait)
    }
}

impl WaitBackoff for WatchBackoff {
    /// kube calls this with each event, and its watcher has one before each list: waits that began anew then would never grow. A list
    /// that succeeds is no reason either, if each watch after it fails. So the time alone decides.
    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests;

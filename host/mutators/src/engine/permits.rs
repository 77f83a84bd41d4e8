//! A bound on the number of calls that run at the same time.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Somebody waits for a pod.
    Pod,
    /// A plugin is asked what it is, or tried, before its chain serves. It may take its time: one such call runs at once,
    /// beside those for pods, so that no pod waits for it.
    Trial,
}

/// Counts free permits of each purpose; waiting callers are woken one by one.
pub(super) struct Permits {
    pods: Lane,
    trials: Lane,
}

struct Lane {
    count: Mutex<Count>,
    freed: Condvar,
}

struct Count {
    free: usize,
    /// Waking is a system call, even where nobody waits; this saves it.
    waiting: usize,
}

impl Permits {
    pub(super) fn new(pods: usize) -> Self {
        Self {
            pods: Lane::new(pods),
            trials: Lane::new(1),
        }
    }

    pub(super) fn acquire(&self, purpose: Purpose) -> Permit<'_> {
        match purpose {
            Purpose::Pod => self.pods.acquire(),
            Purpose::Trial => self.trials.acquire(),
        }
    }
}

impl Lane {
    fn new(free: usize) -> Self {
        Self {
            count: Mutex::new(Count { free, waiting: 0 }),
            freed: Condvar::new(),
        }
    }

    fn acquire(&self) -> Permit<'_> {
        let mut count = self.count();
        if count.free == 0 {
            count.waiting += 1;
            count = self
                .freed
                .wait_while(count, |count| count.free == 0)
                .unwrap_or_else(PoisonError::into_inner);
            count.waiting -= 1;
        }
        count.free -= 1;
        Permit { lane: self }
    }

    fn count(&self) -> MutexGuard<'_, Count> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to run one call; given back when dropped.
pub(crate) struct Permit<'a> {
    lane: &'a Lane,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut count = self.lane.count();
        count.free += 1;
        let is_awaited = count.waiting > 0;
        drop(count);
        if is_awaited {
            self.lane.freed.notify_one();
        }
    }
}

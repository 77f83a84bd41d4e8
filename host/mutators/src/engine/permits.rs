//! A bound on the number of calls that run at the same time, and what the clock of their time limits waits for.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::until::Until;

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
    count: Mutex<Count>,
    pod_ended: Condvar,
    trial_ended: Condvar,
    /// The clock stands still while no call runs.
    began: Condvar,
}

struct Count {
    pods: Lane,
    trials: Lane,
    running: usize,
    clock: Clock,
}

struct Lane {
    free: usize,
    /// Waking is a system call, even where nobody waits; this saves it.
    waiting: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clock {
    Ticks,
    /// Whoever begins a call wakes it.
    Rests,
    Ends,
}

impl Count {
    fn lane(&mut self, purpose: Purpose) -> &mut Lane {
        match purpose {
            Purpose::Pod => &mut self.pods,
            Purpose::Trial => &mut self.trials,
        }
    }
}

impl Permits {
    pub(super) fn new(pods: usize) -> Self {
        let lane = |free| Lane { free, waiting: 0 };
        Self {
            count: Mutex::new(Count {
                pods: lane(pods),
                trials: lane(1),
                running: 0,
                clock: Clock::Ticks,
            }),
            pod_ended: Condvar::new(),
            trial_ended: Condvar::new(),
            began: Condvar::new(),
        }
    }

    /// None if no permit was free in time.
    pub(super) fn acquire(&self, purpose: Purpose, until: Until) -> Option<Permit<'_>> {
        let mut count = self.count();
        if count.lane(purpose).free == 0 {
            count.lane(purpose).waiting += 1;
            count = self.wait(count, purpose, until);
            count.lane(purpose).waiting -= 1;
        }
        if count.lane(purpose).free == 0 {
            return None;
        }
        count.lane(purpose).free -= 1;
        count.running += 1;
        let clock_rests = count.clock == Clock::Rests;
        if clock_rests {
            count.clock = Clock::Ticks;
        }
        drop(count);
        if clock_rests {
            self.began.notify_one();
        }
        Some(Permit {
            permits: self,
            purpose,
        })
    }

    /// Waits until a permit is free, or it is too late.
    fn wait<'c>(
        &'c self,
        count: MutexGuard<'c, Count>,
        purpose: Purpose,
        until: Until,
    ) -> MutexGuard<'c, Count> {
        let (ended, is_taken) = (self.ended(purpose), |count: &mut Count| {
            count.lane(purpose).free == 0
        });
        match until.left() {
            None => ended
                .wait_while(count, is_taken)
                .unwrap_or_else(PoisonError::into_inner),
            Some(left) => {
                let waited = ended.wait_timeout_while(count, left, is_taken);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    /// Waits until a call runs; false once [`Self::close`] was called.
    pub(super) fn await_call(&self) -> bool {
        let mut count = self.count();
        while count.running == 0 && count.clock != Clock::Ends {
            count.clock = Clock::Rests;
            count = self
                .began
                .wait(count)
                .unwrap_or_else(PoisonError::into_inner);
        }
        count.clock != Clock::Ends
    }

    /// Lets the clock end.
    pub(super) fn close(&self) {
        self.count().clock = Clock::Ends;
        self.began.notify_one();
    }

    #[cfg(test)]
    pub(super) fn clock_rests(&self) -> bool {
        self.count().clock == Clock::Rests
    }

    fn ended(&self, purpose: Purpose) -> &Condvar {
        match purpose {
            Purpose::Pod => &self.pod_ended,
            Purpose::Trial => &self.trial_ended,
        }
    }

    fn count(&self) -> MutexGuard<'_, Count> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to run one call; given back when dropped.
pub(crate) struct Permit<'a> {
    permits: &'a Permits,
    purpose: Purpose,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut count = self.permits.count();
        count.running -= 1;
        let lane = count.lane(self.purpose);
        lane.free += 1;
        let is_awaited = lane.waiting > 0;
        drop(count);
        if is_awaited {
            self.permits.ended(self.purpose).notify_one();
        }
    }
}

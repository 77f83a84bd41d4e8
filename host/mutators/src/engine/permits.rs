//! Limits how many calls run at the same time, and lets the epoch thread wait while none does.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use podloom_turns::lock;

use crate::until::Until;

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallPurpose {
    /// Somebody waits for a pod.
    Pod,
    /// A plugin is described or tried before its chain serves. Only one such call runs at a time, and it does not take a permit
    /// from the calls for pods, so no pod waits for it.
    Trial,
}

/// Counts the free permits of each purpose and wakes waiting callers one by one.
pub(super) struct Permits {
    /// How many there are for pods.
    pods: usize,
    count: Mutex<PermitCounts>,
    pod_ended: Condvar,
    trial_ended: Condvar,
    /// Wakes the epoch thread, which sleeps while no call runs.
    began: Condvar,
}

struct PermitCounts {
    pods: Lane,
    trials: Lane,
    running: usize,
    clock: ClockState,
}

struct Lane {
    free: usize,
    /// Waking is a system call even if nobody waits; this count avoids it.
    waiting: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClockState {
    Ticks,
    /// The next call wakes it.
    Rests,
    Ends,
}

impl PermitCounts {
    fn lane(&mut self, purpose: CallPurpose) -> &mut Lane {
        match purpose {
            CallPurpose::Pod => &mut self.pods,
            CallPurpose::Trial => &mut self.trials,
        }
    }
}

impl Permits {
    pub(super) fn new(pods: usize) -> Self {
        let lane = |free| Lane { free, waiting: 0 };
        Self {
            pods,
            count: Mutex::new(PermitCounts {
                pods: lane(pods),
                trials: lane(1),
                running: 0,
                clock: ClockState::Ticks,
            }),
            pod_ended: Condvar::new(),
            trial_ended: Condvar::new(),
            began: Condvar::new(),
        }
    }

    /// Waits for a permit; none if the deadline passes first.
    pub(super) fn acquire(&self, purpose: CallPurpose, until: Until) -> Option<Permit<'_>> {
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
        let clock_rests = count.clock == ClockState::Rests;
        if clock_rests {
            count.clock = ClockState::Ticks;
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

    /// Waits until a permit is free or the deadline passes.
    fn wait<'c>(
        &'c self,
        count: MutexGuard<'c, PermitCounts>,
        purpose: CallPurpose,
        until: Until,
    ) -> MutexGuard<'c, PermitCounts> {
        let (ended, is_taken) = (self.ended(purpose), |count: &mut PermitCounts| {
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

    /// Whether about half of the permits for pods are taken: as many as one tenant gets, who keeps the processors busy.
    pub(super) fn are_busy(&self) -> bool {
        let free = self.count().pods.free;
        free < self.pods && free * 2 <= self.pods + 1
    }

    /// Waits until a call runs; false once [`Self::close`] was called.
    pub(super) fn await_call(&self) -> bool {
        let mut count = self.count();
        while count.running == 0 && count.clock != ClockState::Ends {
            count.clock = ClockState::Rests;
            count = self
                .began
                .wait(count)
                .unwrap_or_else(PoisonError::into_inner);
        }
        count.clock != ClockState::Ends
    }

    /// Ends the epoch thread.
    pub(super) fn close(&self) {
        self.count().clock = ClockState::Ends;
        self.began.notify_one();
    }

    #[cfg(test)]
    pub(super) fn clock_rests(&self) -> bool {
        self.count().clock == ClockState::Rests
    }

    fn ended(&self, purpose: CallPurpose) -> &Condvar {
        match purpose {
            CallPurpose::Pod => &self.pod_ended,
            CallPurpose::Trial => &self.trial_ended,
        }
    }

    fn count(&self) -> MutexGuard<'_, PermitCounts> {
        lock(&self.count)
    }
}

/// The right to run one call; returned when dropped.
pub(crate) struct Permit<'a> {
    permits: &'a Permits,
    purpose: CallPurpose,
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

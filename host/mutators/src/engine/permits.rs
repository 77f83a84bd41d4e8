//! A bound on the number of calls that run at the same time.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Counts free permits; waiting callers are woken one by one.
pub(super) struct Permits {
    count: Mutex<Count>,
    freed: Condvar,
}

struct Count {
    free: usize,
    /// Waking is a system call, even where nobody waits; this saves it.
    waiting: usize,
}

impl Permits {
    pub(super) fn new(free: usize) -> Self {
        Self {
            count: Mutex::new(Count { free, waiting: 0 }),
            freed: Condvar::new(),
        }
    }

    pub(super) fn acquire(&self) -> Permit<'_> {
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
        Permit { permits: self }
    }

    fn count(&self) -> MutexGuard<'_, Count> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to run one call; given back when dropped.
pub(crate) struct Permit<'a> {
    permits: &'a Permits,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut count = self.permits.count();
        count.free += 1;
        let is_awaited = count.waiting > 0;
        drop(count);
        if is_awaited {
            self.permits.freed.notify_one();
        }
    }
}

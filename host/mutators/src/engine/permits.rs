//! A bound on the number of calls that run at the same time.

use std::sync::{Condvar, Mutex, PoisonError};

/// Counts free permits; waiting callers are woken one by one.
pub(super) struct Permits {
    free: Mutex<usize>,
    freed: Condvar,
}

impl Permits {
    pub(super) fn new(count: usize) -> Self {
        Self {
            free: Mutex::new(count),
            freed: Condvar::new(),
        }
    }

    pub(super) fn acquire(&self) -> Permit<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self
            .freed
            .wait_while(free, |free| *free == 0)
            .unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        Permit { permits: self }
    }
}

/// The right to run one call; given back when dropped.
pub(crate) struct Permit<'a> {
    permits: &'a Permits,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self
            .permits
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner) += 1;
        self.permits.freed.notify_one();
    }
}

//! Calls of the chain on the caller's own thread.
//!
//! To switch to a blocking thread and back costs as much as fast plugins take. So while the chain is fast, its calls run where
//! their callers do: on the threads of the runtime. A plugin that suddenly takes long would hold up other tasks there, so one thread
//! always stays free for them, and after a slow call the next ones run on blocking threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A call that takes longer is slow.
const SLOW: Duration = Duration::from_millis(2);
/// After a slow call, so many calls run on blocking threads.
const CAREFUL: usize = 256;

/// Decides which calls run on the caller's own thread.
#[derive(Debug)]
pub(crate) struct FastLane {
    /// How many more calls may run on threads of the runtime.
    free: AtomicUsize,
    /// How many of the next calls run on blocking threads.
    careful: AtomicUsize,
}

/// A place on the caller's own thread; given back when dropped.
pub(super) struct Place<'a>(&'a FastLane);

impl FastLane {
    /// At most so many calls run on threads of the runtime at once: fewer than there are.
    pub(crate) const fn of(calls: usize) -> Self {
        Self {
            free: AtomicUsize::new(calls),
            careful: AtomicUsize::new(0),
        }
    }

    /// Takes a place; none if the call belongs on a blocking thread.
    pub(super) fn enter(&self) -> Option<Place<'_>> {
        // The number counts down one call at a time; that calls overtake each other here does no harm.
        if self.careful.load(Ordering::Relaxed) > 0 {
            return None;
        }
        let one_less = |free: usize| free.checked_sub(1);
        let taken = self
            .free
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, one_less);
        taken.is_ok().then_some(Place(self))
    }

    /// Runs a call, on whatever thread, and remembers whether it was slow.
    ///
    /// # Errors
    /// The message of its panic.
    pub(super) fn run<T>(&self, call: impl FnOnce() -> T) -> Result<T, String> {
        let started = Instant::now();
        // Nobody sees what the call has left behind: it owns all that it changes.
        let result = catch_unwind(AssertUnwindSafe(call));
        if started.elapsed() > SLOW {
            self.careful.store(CAREFUL, Ordering::Relaxed);
        } else if self.careful.load(Ordering::Relaxed) > 0 {
            let one_less = |careful: usize| careful.checked_sub(1);
            let _ = self
                .careful
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        }
        result.map_err(|panic| {
            let text = panic.downcast_ref::<&str>().copied();
            let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            text.unwrap_or("no message").to_owned()
        })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.free.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;

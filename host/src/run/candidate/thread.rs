//! What the kernel says of the thread of the candidate.

use std::fs;
use std::time::{Duration, Instant};

/// How long a thread has run, and waited for a processor.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scheduled {
    pub(super) ran: Duration,
    pub(super) waited: Duration,
}

/// Measures what is done on this thread.
pub(super) struct Meter {
    began: Instant,
    before: Scheduled,
}

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) took: Duration,
    /// How long of it the thread waited for a processor; zero where the kernel does not say.
    pub(super) waited: Duration,
}

impl Scheduled {
    /// So far; zero where the kernel does not say.
    pub(super) fn now() -> Self {
        // Both are in nanoseconds.
        let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let mut numbers = text.split_whitespace().map(str::parse);
        let mut next = || match numbers.next() {
            Some(Ok(nanoseconds)) => Duration::from_nanos(nanoseconds),
            _ => Duration::ZERO,
        };
        Self {
            ran: next(),
            waited: next(),
        }
    }
}

impl Meter {
    pub(super) fn start() -> Self {
        Self {
            before: Scheduled::now(),
            began: Instant::now(),
        }
    }

    pub(super) fn read(&self) -> Measured {
        let took = self.began.elapsed();
        let waited = Scheduled::now().waited;
        Measured {
            took,
            waited: waited.saturating_sub(self.before.waited),
        }
    }
}

impl Measured {
    /// Whether others took the processor so often that a time limit says nothing about the plugin.
    pub(super) fn is_starved(&self) -> bool {
        self.waited > self.took / 2
    }
}

//! How long building a chain may take.

use std::time::{Duration, Instant};

/// When to give up building a chain. Each step is bounded, and yet a chain of many slow plugins would take hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Until(Option<Instant>);

impl Until {
    /// Somebody waits for it, and can give up by himself.
    pub(crate) const DONE: Self = Self(None);

    pub(crate) fn after(time: Duration) -> Self {
        Self(Instant::now().checked_add(time))
    }

    pub(crate) fn is_over(self) -> bool {
        self.0.is_some_and(|until| Instant::now() >= until)
    }

    /// The time that is left; none if there is no end.
    pub(crate) fn left(self) -> Option<Duration> {
        self.0
            .map(|until| until.saturating_duration_since(Instant::now()))
    }
}

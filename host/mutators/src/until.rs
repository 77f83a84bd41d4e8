//! Deadlines: for building a chain, and for a pod that passes through one.

use std::time::{Duration, Instant};

/// When to give up, if ever. Each step has a limit of its own, but the steps of many slow plugins would add up to hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Until(Option<Instant>);

impl Until {
    /// No deadline: the caller waits, and can give up by itself.
    pub(crate) const DONE: Self = Self(None);

    /// The earlier of both.
    pub(crate) fn or(self, other: Self) -> Self {
        let both = [self.0, other.0].into_iter().flatten();
        Self(both.min())
    }

    pub(crate) fn at(instant: Option<Instant>) -> Self {
        Self(instant)
    }

    pub(crate) fn after(time: Duration) -> Self {
        Self(Instant::now().checked_add(time))
    }

    pub(crate) fn is_over(self) -> bool {
        self.0.is_some_and(|until| Instant::now() >= until)
    }

    /// The time that is left; none without a deadline.
    pub(crate) fn left(self) -> Option<Duration> {
        self.0
            .map(|until| until.saturating_duration_since(Instant::now()))
    }
}

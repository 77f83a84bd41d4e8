//! How long building a chain, or the way of a pod through it, may take.

use std::time::{Duration, Instant};

/// When to give up. Each step is bounded, and yet building a chain of many slow plugins would take hours, and a pod is wanted soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Until(Option<Instant>);

impl Until {
    /// Somebody waits for it, and can give up by himself.
    pub(crate) const DONE: Self = Self(None);

    /// At that instant, if there is one.
    pub(crate) fn at(instant: Option<Instant>) -> Self {
        Self(instant)
    }

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

//! The plan for an object: at most one action, its Events, and when to look again.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::events::Notice;

/// The next step for an object. It has at most one action, since the outcome may change what comes next.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan<A> {
    /// The action, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<A>,
    /// The Events to publish after the action.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
    /// When to look again.
    pub then: Then,
}

/// When to look again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Then {
    /// At once, with the outcome of the action: plan again. Only for plans with an action.
    GoOn,
    /// When something changes, or at the resync.
    Change,
    /// When something changes, or at this time.
    At(Timestamp),
    /// With backoff, because something was rejected.
    Retry {
        /// The label of the metric: one word, from a closed set.
        reason: &'static str,
        /// Why, for the log. The status should show it too.
        #[serde(skip)]
        message: String,
        /// When trying ends.
        until: Timestamp,
    },
}

impl<A> Plan<A> {
    /// Returns a plan to act, and to plan again with the outcome.
    pub fn act(action: A) -> Self {
        Self {
            action: Some(action),
            notices: Vec::new(),
            then: Then::GoOn,
        }
    }

    /// Returns a plan to wait.
    pub fn wait(then: Then) -> Self {
        Self {
            action: None,
            notices: Vec::new(),
            then,
        }
    }

    /// Adds Events to publish after the action.
    #[must_use]
    pub fn with_notices(mut self, notices: impl IntoIterator<Item = Notice>) -> Self {
        self.notices.extend(notices);
        self
    }
}

impl Then {
    /// Returns the same, but no later than this time. A retry keeps its backoff.
    #[must_use]
    pub fn by(self, at: Timestamp) -> Self {
        match self {
            Self::GoOn | Self::Change => Self::At(at),
            Self::At(planned) => Self::At(planned.min(at)),
            retry @ Self::Retry { .. } => retry,
        }
    }
}

/// Returns the time after a duration, at most the latest one that a timestamp can hold.
#[must_use]
pub fn later(from: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by)
        .ok()
        .and_then(|by| from.checked_add(by).ok())
        .unwrap_or(Timestamp::MAX)
}

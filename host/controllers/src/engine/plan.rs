//! What a plan says: at most one action, the Events that tell it, and when to look again.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::events::Notice;

/// The next step for an object. It has at most one action, since what that teaches may change what comes next.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan<A> {
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<A>,
    /// The Events to publish once the action is done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
    /// What comes after it.
    pub then: Then,
}

/// When to look again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Then {
    /// At once, with what the action taught. A plan without an action never says so.
    GoOn,
    /// When something changes, at the resync at the latest.
    Change,
    /// When something changes, or then.
    At(Timestamp),
    /// With backoff, since something was refused; the last time then.
    Retry {
        /// The label of the metric: one word, from a closed set.
        reason: &'static str,
        /// Why, for the log; the status says it too.
        #[serde(skip)]
        message: String,
        /// When trying ends.
        until: Timestamp,
    },
}

impl<A> Plan<A> {
    /// Returns a plan to act, and to plan again with what that taught.
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

    /// Adds Events to publish once the action is done.
    #[must_use]
    pub fn with_notices(mut self, notices: impl IntoIterator<Item = Notice>) -> Self {
        self.notices.extend(notices);
        self
    }
}

impl Then {
    /// Returns the same, but at this time at the latest. What is retried keeps its backoff.
    #[must_use]
    pub fn by(self, at: Timestamp) -> Self {
        match self {
            Self::GoOn | Self::Change => Self::At(at),
            Self::At(planned) => Self::At(planned.min(at)),
            retry @ Self::Retry { .. } => retry,
        }
    }
}

/// Returns a point in time after another; one beyond all time is the end of time.
#[must_use]
pub fn later(from: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by)
        .ok()
        .and_then(|by| from.checked_add(by).ok())
        .unwrap_or(Timestamp::MAX)
}

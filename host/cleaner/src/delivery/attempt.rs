//! An attempt to deliver an event, as the process remembers it. After a restart, nothing of it is needed: the event is sent again.

use std::time::Duration;

use jiff::Timestamp;
use podloom_engine::plan::later;

/// How long to wait after the first failure.
const WAIT_FIRST: Duration = Duration::from_secs(1);
/// How long to wait at most, whatever the sink says.
pub(super) const WAIT_LONGEST: Duration = Duration::from_mins(5);

/// The last attempt to deliver the event of a Cleaner.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Attempt {
    /// Which one it is of this event; the first has 1.
    pub(crate) number: i32,
    /// Where the event goes.
    pub(crate) sink: String,
    /// How many attempts at this sink have failed in a row.
    pub(crate) failures: u32,
    /// What came of it.
    pub(crate) state: AttemptState,
}

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AttemptState {
    /// It runs.
    Running,
    /// The sink accepted the event.
    Accepted,
    /// It failed. The message is for the status: in our words, nothing of it is from the sink.
    Failed(String, Pause),
    /// It never began, since too many of our requests run. This says nothing about the sink.
    Postponed(Pause),
}

/// A time without attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pause {
    /// When it began.
    pub(crate) at: Timestamp,
    /// How long it is.
    pub(crate) wait: Duration,
}

impl AttemptState {
    /// Returns until when there is no other attempt, if not at once.
    pub(super) fn pause(&self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Running | Self::Accepted => None,
            Self::Failed(_, pause) | Self::Postponed(pause) => pause.end(now),
        }
    }
}

impl Pause {
    /// Returns its end; none if it is over. A clock that was put back ends it too.
    fn end(self, now: Timestamp) -> Option<Timestamp> {
        let end = later(self.at, self.wait);
        (self.at <= now && now < end).then_some(end)
    }
}

/// Returns how long to wait after this number of failures in a row: twice as long each time, and not less than the sink wants.
pub(super) fn wait(failures: u32, retry_after: Option<Duration>) -> Duration {
    let doublings = failures.saturating_sub(1);
    let doubled = WAIT_FIRST.saturating_mul(2_u32.saturating_pow(doublings));
    let wanted = retry_after.unwrap_or_default();
    doubled.max(wanted).min(WAIT_LONGEST)
}

#[cfg(test)]
mod tests;

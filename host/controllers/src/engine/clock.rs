//! The API server's time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;

/// The dates of answers are whole seconds, cut off.
const DATE: Duration = Duration::from_secs(1);

/// What time it is for the API server; cheap to clone.
///
/// Objects carry its stamps, and deadlines are counted from them. A machine whose own clock is five minutes ahead would otherwise
/// end everything at once. So this one begins with the machine's clock, goes on by itself, and is set right by the date of each
/// answer, as far as that date leaves no doubt.
///
/// ```
/// use std::time::{Duration, Instant, SystemTime};
/// use podloom_controllers::Clock;
///
/// let clock = Clock::new();
/// let an_hour_ago = SystemTime::now() - Duration::from_secs(3600);
/// clock.heard(an_hour_ago, Instant::now());
/// assert!(SystemTime::from(clock.now()) < an_hour_ago + Duration::from_secs(60));
/// ```
#[derive(Clone, Debug)]
pub struct Clock(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    began: Instant,
    /// What time it was then, in microseconds.
    origin: AtomicI64,
}

impl Clock {
    /// Returns a clock that shows the machine's time until it hears better.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Inner {
            began: Instant::now(),
            origin: AtomicI64::new(Timestamp::now().as_microsecond()),
        }))
    }

    /// Returns the time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let origin = self.0.origin.load(Ordering::Relaxed);
        let now = origin.saturating_add(micros(self.0.began.elapsed()));
        Timestamp::from_microsecond(now).unwrap_or(Timestamp::MAX)
    }

    /// Takes in the date of an answer that has just come, and when its request was sent. A date that no clock can have is ignored.
    pub fn heard(&self, date: impl TryInto<Timestamp>, sent: Instant) {
        self.hears(date, sent, Instant::now());
    }

    /// At some moment between the two, it was that date or up to a second later.
    fn hears(&self, date: impl TryInto<Timestamp>, sent: Instant, came: Instant) {
        let Ok(date) = date.try_into() else {
            return;
        };
        let since = |at: Instant| micros(at.saturating_duration_since(self.0.began));
        let date = date.as_microsecond();
        let earliest = date.saturating_sub(since(came));
        let latest = date
            .saturating_add(micros(DATE))
            .saturating_sub(since(sent))
            .max(earliest);
        let right = |origin: i64| Some(origin.clamp(earliest, latest));
        // It always has a value to give.
        let _ = self
            .0
            .origin
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, right);
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;

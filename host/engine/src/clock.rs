//! The API server's time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;

/// The dates of responses are truncated to whole seconds.
const DATE: Duration = Duration::from_secs(1);

/// The time of the API server; cheap to clone.
///
/// Timeouts count from the API server's timestamps in objects. With the machine's own clock, five minutes ahead, all of them would
/// pass at once. So this clock starts with the machine's time and is corrected by the date of each response, as far as the date is
/// precise.
///
/// ```
/// use std::time::{Duration, Instant, SystemTime};
/// use podloom_engine::clock::Clock;
///
/// let clock = Clock::new();
/// let an_hour_ago = SystemTime::now() - Duration::from_secs(3600);
/// clock.heard(an_hour_ago, Instant::now());
/// assert!(SystemTime::from(clock.now()) < an_hour_ago + Duration::from_secs(60));
/// ```
#[derive(Clone, Debug)]
pub struct Clock {
    began: Instant,
    /// The time at that moment, in microseconds.
    origin: Arc<AtomicI64>,
}

impl Clock {
    /// Returns a clock that shows the machine's time until it is corrected.
    #[must_use]
    pub fn new() -> Self {
        Self {
            began: Instant::now(),
            origin: Arc::new(AtomicI64::new(Timestamp::now().as_microsecond())),
        }
    }

    /// Returns a clock that stands still at this time, for tests.
    #[must_use]
    pub fn standing(at: Timestamp) -> Self {
        Self {
            began: Instant::now() + Duration::from_hours(1_000),
            origin: Arc::new(AtomicI64::new(at.as_microsecond())),
        }
    }

    /// Returns the time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let origin = self.origin.load(Ordering::Relaxed);
        let now = origin.saturating_add(micros(self.began.elapsed()));
        Timestamp::from_microsecond(now).unwrap_or(Timestamp::MAX)
    }

    /// Corrects the clock by the date of a response that has just come; `sent` is when its request was sent. An invalid date is ignored.
    pub fn heard(&self, date: impl TryInto<Timestamp>, sent: Instant) {
        self.hears(date, sent, Instant::now());
    }

    /// At some moment between the two instants, the time was that date or up to a second later.
    fn hears(&self, date: impl TryInto<Timestamp>, sent: Instant, came: Instant) {
        let Ok(date) = date.try_into() else {
            return;
        };
        let since = |at: Instant| micros(at.saturating_duration_since(self.began));
        let date = date.as_microsecond();
        let earliest = date.saturating_sub(since(came));
        let latest = date
            .saturating_add(micros(DATE))
            .saturating_sub(since(sent))
            .max(earliest);
        let corrected = |origin: i64| Some(origin.clamp(earliest, latest));
        // It never fails, since `corrected` always returns a value.
        let _ = self
            .origin
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, corrected);
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

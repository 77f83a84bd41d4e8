//! When the targets are looked at again, unless something changes before.

use std::time::Duration;

use jiff::Timestamp;
use podloom_engine::plan::later;

/// The part of the period by which a look may be late, so that Cleaners which were made together do not all look at once.
pub(super) const JITTER_MAX: f64 = 0.1;

/// What decides when the next look is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rhythm {
    /// The time between two looks.
    pub(super) period: Duration,
    /// Which part of the period is added, up to [`JITTER_MAX`].
    pub(super) jitter: f64,
    /// A look that was planned before and is kept if it is still to come: changes of targets do not put it off.
    pub(super) planned: Option<Timestamp>,
}

impl Rhythm {
    /// Returns the look after one at this time.
    pub(super) fn next(&self, at: Timestamp) -> Timestamp {
        let latest = millis_up(later(at, stretched(self.period, JITTER_MAX)));
        let planned = self
            .planned
            .filter(|planned| *planned > at && *planned <= latest);
        planned.unwrap_or_else(|| {
            let jitter = self.jitter.clamp(0.0, JITTER_MAX);
            millis_up(later(at, stretched(self.period, jitter)))
        })
    }
}

/// A duration and a part of it.
fn stretched(period: Duration, part: f64) -> Duration {
    let more = Duration::try_from_secs_f64(period.as_secs_f64() * part);
    period.saturating_add(more.unwrap_or_default())
}

/// The first whole millisecond from this time on, since texts of times in a status should be short.
fn millis_up(time: Timestamp) -> Timestamp {
    let millis = time.as_microsecond().div_euclid(1000);
    let whole = Timestamp::from_millisecond(millis);
    match whole {
        Ok(whole) if whole < time => Timestamp::from_millisecond(millis + 1).unwrap_or(time),
        Ok(whole) => whole,
        Err(_) => time,
    }
}

#[cfg(test)]
mod tests;

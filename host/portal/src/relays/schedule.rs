//! When a relay is to be asked. Pure: every call passes the current time, and the random number where one is needed.

use std::time::Duration;

use tokio::time::Instant;

/// The pause while a tunnel that could be connected is not.
const SOON: Duration = Duration::from_secs(2);
/// How long a tunnel is waited for so impatiently, all its episodes together.
const BUDGET: Duration = Duration::from_mins(2);
/// After so long without impatience the whole budget is there again. A relay that gives and takes a lease all the time costs no more.
const RENEWAL: Duration = Duration::from_mins(15);
/// The pause after the first look without a usable answer; it doubles with each further one.
const BACKOFF_FIRST: Duration = Duration::from_secs(1);
/// The longest such pause.
const BACKOFF_LONGEST: Duration = Duration::from_mins(1);
/// The pause if there was no room for the request.
const BUSY: Duration = Duration::from_secs(1);

/// How a look at a relay ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// The relay gave a usable answer.
    Usable,
    /// It did not.
    Unusable,
    /// It was not asked, since too many other requests are running.
    Busy,
}

/// When a relay was asked last, and how long to wait after that.
#[derive(Clone, Debug, Default)]
pub(super) struct Schedule {
    last: Option<(Instant, Pause)>,
}

#[derive(Clone, Copy, Debug)]
enum Pause {
    /// The interval times this factor.
    Interval(f64),
    /// After so many looks in a row without a usable answer.
    Backoff(u32),
    /// After `Busy`, with the looks without a usable answer before it.
    Busy(u32),
}

impl Schedule {
    /// Returns when the relay is due; `soon` says whether a tunnel is waited for.
    pub(super) fn due(&self, interval: Duration, soon: bool, now: Instant) -> Instant {
        let Some((last, pause)) = self.last else {
            return now;
        };
        last + match pause {
            Pause::Interval(_) if soon => SOON.min(interval),
            Pause::Interval(factor) => interval.mul_f64(factor),
            Pause::Backoff(failures) => backoff(failures),
            Pause::Busy(_) => BUSY,
        }
    }

    /// Records a look that has just ended. The random number is from 0 to 1.
    pub(super) fn looked(&mut self, look: Look, random: f64, now: Instant) {
        let failures = match self.last {
            Some((_, Pause::Backoff(failures) | Pause::Busy(failures))) => failures,
            Some((_, Pause::Interval(_))) | None => 0,
        };
        let pause = match look {
            Look::Usable => Pause::Interval(0.9 + 0.2 * random),
            Look::Unusable => Pause::Backoff(failures.saturating_add(1)),
            Look::Busy => Pause::Busy(failures),
        };
        self.last = Some((now, pause));
    }
}

/// The pause after so many looks in a row without a usable answer, which are at least one.
fn backoff(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1);
    BACKOFF_FIRST
        .saturating_mul(2_u32.saturating_pow(doublings))
        .min(BACKOFF_LONGEST)
}

/// The time in which a tunnel with a ready pod lacks its lease, and what is left of the budget for such times.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Episode {
    since: Option<Instant>,
    /// What earlier episodes have spent of the budget, and until when.
    spent: Duration,
    until: Option<Instant>,
}

impl Episode {
    /// The tunnel lacks its lease; the episode starts now unless it has started.
    pub(super) fn start(&mut self, now: Instant) {
        if self.since.is_some() {
            return;
        }
        self.since = Some(now);
        let pause = self.until.map(|until| now.saturating_duration_since(until));
        if pause.is_some_and(|pause| pause >= RENEWAL) {
            self.spent = Duration::ZERO;
        }
    }

    /// The tunnel has its lease, or has no pod that could get one, or nobody knows.
    pub(super) fn end(&mut self, now: Instant) {
        let Some(since) = self.since.take() else {
            return;
        };
        let urgent = now.saturating_duration_since(since).min(self.left());
        if !urgent.is_zero() {
            self.spent += urgent;
            self.until = Some(since + urgent);
        }
    }

    /// Whether the relay is asked about the tunnel soon.
    pub(super) fn is_urgent(self, now: Instant) -> bool {
        self.since
            .is_some_and(|since| now.saturating_duration_since(since) < self.left())
    }

    fn left(self) -> Duration {
        BUDGET.saturating_sub(self.spent)
    }
}

#[cfg(test)]
mod tests;

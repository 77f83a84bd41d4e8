//! The backoff: how long an id waits after a failure.

use std::time::Duration;

/// Longer than any process lives, and short enough that no clock overflows.
pub(crate) const FAR: Duration = Duration::from_hours(24 * 365 * 30);

/// The resolution of timers. A shorter pause would be none.
pub(crate) const LEAST: Duration = Duration::from_millis(1);

/// A pause that doubles with each failure up to a cap. Jitter shortens it by up to a fifth, so that ids that failed together are not
/// retried together.
#[derive(Debug)]
pub(crate) struct Backoff {
    base: Duration,
    cap: Duration,
    random: fastrand::Rng,
}

impl Backoff {
    pub(crate) fn new(base: Duration, cap: Duration, random: fastrand::Rng) -> Self {
        let base = base.clamp(LEAST, FAR);
        Self {
            base,
            cap: cap.clamp(LEAST, FAR),
            random,
        }
    }

    /// The shortest pause after a failed run.
    pub(crate) fn base(&self) -> Duration {
        self.base.min(self.cap)
    }

    /// The pause after so many failures in a row.
    pub(crate) fn pause(&mut self, failures: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
        let most = self.base.saturating_mul(doubled).min(self.cap);
        most.mul_f64(0.8 + 0.2 * self.random.f64()).min(most)
    }
}

//! How long calls took: a histogram, for millions of them would be the memory that is measured.

use std::fmt;
use std::time::Duration;

/// Each bucket is so much wider than the one before; the error of a quantile is half of that.
const STEP: f64 = 1.02;
/// From one nanosecond to beyond a minute.
const BUCKETS: usize = 1300;

/// Counts of calls by duration.
pub(crate) struct Latencies {
    counts: Vec<u64>,
    pub(crate) failed: u64,
}

impl Latencies {
    pub(crate) fn new() -> Self {
        Self {
            counts: vec![0; BUCKETS],
            failed: 0,
        }
    }

    pub(crate) fn took(&mut self, duration: Duration) {
        let nanoseconds = duration.as_secs_f64() * 1e9;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a logarithm of a minute in nanoseconds is small"
        )]
        let bucket = nanoseconds.max(1.0).log(STEP) as usize;
        if let Some(count) = self.counts.get_mut(bucket.min(BUCKETS - 1)) {
            *count += 1;
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.failed += other.failed;
    }

    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The duration in seconds that this part of the calls stayed below.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub(crate) fn quantile(&self, part: f64) -> f64 {
        let wanted = self.count() as f64 * part;
        let mut below = 0.0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            below += count as f64;
            if below >= wanted {
                return STEP.powf(bucket as f64 + 0.5) / 1e9;
            }
        }
        0.0
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let microseconds = |part| self.quantile(part) * 1e6;
        write!(
            f,
            "p50 {:.0} us, p99 {:.0} us, p99.9 {:.0} us, {} failed",
            microseconds(0.5),
            microseconds(0.99),
            microseconds(0.999),
            self.failed
        )
    }
}

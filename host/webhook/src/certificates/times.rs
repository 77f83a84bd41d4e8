//! The time, and how long things take.

use std::time::{Duration, SystemTime};

/// The time.
#[derive(Clone, Copy)]
pub(super) struct Time {
    /// The API server's.
    pub(super) now: SystemTime,
    /// How far the machine's clock is from it.
    pub(super) skew: Duration,
}

/// How long things take. Short lifetimes, as in tests, make everything faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    /// The pause between two looks at the cluster.
    pub(super) look: Duration,
    /// The same while something is missing.
    pub(super) soon: Duration,
    /// From the publication of an authority until every API server's watch has it.
    pub(super) settle: Duration,
    /// From the publication of an authority until every replica serves with it.
    pub(super) keep: Duration,
    /// How long a replica without a certificate waits until somebody publishes the authority that it found.
    pub(super) patience: Duration,
}

impl Times {
    pub(super) fn of(lifetime: Duration) -> Self {
        let short = (lifetime / 30).max(Duration::from_millis(50));
        Self {
            look: short.min(Duration::from_secs(10)),
            soon: short.min(Duration::from_secs(1)),
            settle: short.min(Duration::from_secs(10)),
            // Longer than two looks, the time to settle, and some requests.
            keep: (lifetime / 5).min(Duration::from_secs(3600)),
            patience: (lifetime / 10).min(Duration::from_secs(30)),
        }
    }
}

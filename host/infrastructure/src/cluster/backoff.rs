//! How long to wait before a retry: the poll interval, doubled with each failure in a row, give or take a tenth.
//!
//! The share of a wait is a hash of its Cluster and its number, so that a plan stays pure and a thousand Clusters do not come back at
//! once.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// The longest wait, unless the poll interval itself is longer.
const LONGEST: Duration = Duration::from_mins(10);

/// Returns how long to wait after this many failures in a row: one poll interval after the first one.
pub(crate) fn wait(poll: Duration, failures: u32, uid: &str) -> Duration {
    let doublings = failures.saturating_sub(1);
    let longest = LONGEST.max(poll);
    let whole = poll
        .saturating_mul(2_u32.saturating_pow(doublings))
        .min(longest);
    let mut hasher = DefaultHasher::new();
    (uid, failures).hash(&mut hasher);
    // From 900 to 1100 thousandths.
    let share = u32::try_from(hasher.finish() % 201).unwrap_or_default() + 900;
    whole.saturating_mul(share) / 1000
}

/// Returns the longest wait.
pub(crate) fn longest(poll: Duration) -> Duration {
    LONGEST.max(poll)
}

#[cfg(test)]
mod tests;

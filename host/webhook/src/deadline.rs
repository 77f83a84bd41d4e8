//! When the API server stops waiting for our answer.

use std::time::{Duration, Instant};

/// What the API server waits if a webhook configuration does not say how long.
const DEFAULT: Duration = Duration::from_secs(10);
/// The longest time that a webhook configuration can say.
const LONGEST: Duration = Duration::from_secs(30);
/// How much of the time is kept for the way back: a tenth, but no more than this.
const RESERVE: Duration = Duration::from_millis(500);

/// Returns when a request that arrived now must be answered. The API server writes its timeout into the query: `?timeout=5s`.
pub(crate) fn of(query: Option<&str>, arrived: Instant) -> Instant {
    let timeout = query
        .unwrap_or_default()
        .split('&')
        .find_map(|pair| seconds(pair.strip_prefix("timeout=")?))
        .unwrap_or(DEFAULT)
        .min(LONGEST);
    arrived + (timeout - (timeout / 10).min(RESERVE))
}

/// Reads `5s` or `1.5s`; whatever else a client writes counts as absent.
fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|timeout| !timeout.is_zero())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::of;

    #[track_caller]
    fn check(query: &str, milliseconds: u64) {
        let now = Instant::now();
        let left = of(Some(query), now) - now;
        assert_eq!(left, Duration::from_millis(milliseconds), "{query}");
    }

    #[test]
    fn a_tenth_of_the_timeout_is_kept_for_the_way_back() {
        check("timeout=5s", 4500);
        check("timeout=1s", 900);
        check("a=b&timeout=30s", 29_500);
    }

    #[test]
    fn an_absent_or_strange_timeout_is_the_default_and_none_is_longer_than_allowed() {
        for query in [
            "",
            "timeout",
            "timeout=",
            "timeout=s",
            "timeout=NaNs",
            "timeout=-5s",
            "timeout=0s",
            "timeout=5m",
        ] {
            check(query, 9500);
        }
        check("timeout=1e9s", 29_500);
    }
}

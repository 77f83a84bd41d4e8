//! When the API server stops waiting for our answer.

use std::time::{Duration, Instant};

/// What the API server waits if a webhook configuration does not say how long.
const DEFAULT: Duration = Duration::from_secs(10);
/// The longest time that a webhook configuration can say.
const LONGEST: Duration = Duration::from_secs(30);
/// The shortest one.
const SHORTEST: Duration = Duration::from_secs(1);
/// How much of the time is kept: the API server's clock began before it connected, and it rounds up to whole seconds. Of a short time
/// it is half.
const RESERVE: Duration = Duration::from_secs(1);

/// Returns when a request that arrived now must be answered. The API server writes its timeout into the query: `?timeout=5s`.
pub(crate) fn of(query: Option<&str>, arrived: Instant) -> Instant {
    let timeout = query
        .unwrap_or_default()
        .split('&')
        .find_map(|pair| seconds(pair.strip_prefix("timeout=")?))
        .unwrap_or(DEFAULT)
        .clamp(SHORTEST, LONGEST);
    arrived + (timeout - (timeout / 2).min(RESERVE))
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
    fn a_second_is_kept_or_half_of_a_short_time() {
        check("timeout=5s", 4000);
        check("timeout=1s", 500);
        check("timeout=0.000001s", 500);
        check("a=b&timeout=30s", 29_000);
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
            check(query, 9000);
        }
        check("timeout=1e9s", 29_000);
    }
}

use std::time::{Duration, Instant};

use super::super::deadline;

#[track_caller]
fn check(query: &str, milliseconds: u64) {
    let now = Instant::now();
    let left = deadline(Some(query), now) - now;
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

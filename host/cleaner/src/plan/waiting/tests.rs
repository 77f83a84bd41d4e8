use std::time::Duration;

use jiff::Timestamp;

use super::next_look;

const AT: &str = "2026-01-01T00:00:00Z";

#[track_caller]
fn check(period: u64, jitter: f64, planned: Option<&str>, expected: &str) {
    let time = |text: &str| text.parse::<Timestamp>().unwrap();
    let next = next_look(
        time(AT),
        Duration::from_secs(period),
        jitter,
        planned.map(time),
    );
    assert_eq!(next, time(expected));
}

#[test]
fn the_period_is_stretched_by_the_jitter() {
    check(10, 0.0, None, "2026-01-01T00:00:10Z");
    check(10, 0.05, None, "2026-01-01T00:00:10.5Z");
    check(10, 0.1, None, "2026-01-01T00:00:11Z");
}

#[test]
fn no_jitter_is_longer_than_a_tenth() {
    check(10, 5.0, None, "2026-01-01T00:00:11Z");
    check(10, -1.0, None, "2026-01-01T00:00:10Z");
}

/// Targets that change all the time must not put the next look off for ever.
#[test]
fn a_planned_look_is_kept() {
    check(
        10,
        0.0,
        Some("2026-01-01T00:00:03Z"),
        "2026-01-01T00:00:03Z",
    );
    check(
        10,
        0.0,
        Some("2026-01-01T00:00:11Z"),
        "2026-01-01T00:00:11Z",
    );
}

#[test]
fn a_planned_look_that_is_over_or_too_far_away_is_not() {
    check(10, 0.0, Some(AT), "2026-01-01T00:00:10Z");
    check(
        10,
        0.0,
        Some("2025-12-31T23:59:59Z"),
        "2026-01-01T00:00:10Z",
    );
    check(
        10,
        0.0,
        Some("2026-01-01T00:00:11.001Z"),
        "2026-01-01T00:00:10Z",
    );
}

#[test]
fn the_longest_period_ends_with_time_itself() {
    let next = next_look(AT.parse().unwrap(), Duration::MAX, 0.1, None);
    assert!(next > "9999-01-01T00:00:00Z".parse().unwrap());
}

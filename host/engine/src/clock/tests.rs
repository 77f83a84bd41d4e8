use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

use super::Clock;

/// How far the clock is from a time, in milliseconds.
fn off(clock: &Clock, time: Timestamp) -> i64 {
    i64::try_from(clock.now().duration_since(time).as_millis()).expect("no age of the world")
}

#[test]
fn without_an_answer_it_is_the_machines_time() {
    assert!(off(&Clock::new(), Timestamp::now()).abs() < 500);
}

/// What a date leaves in doubt is up to a second, and the time that the answer took.
#[test]
fn a_machine_that_is_ahead_or_behind_is_set_right() {
    for skew in [-300, -2, 2, 300] {
        let clock = Clock::new();
        let there = Timestamp::now() - SignedDuration::from_secs(skew);
        clock.heard(there, Instant::now());
        let off = off(&clock, there);
        assert!((-500..1500).contains(&off), "{skew} s: off by {off} ms");
    }
}

#[test]
fn a_right_clock_is_left_alone() {
    let clock = Clock::new();
    let before = clock.origin.load(std::sync::atomic::Ordering::Relaxed);
    for late in [0, 400, 999] {
        let date = Timestamp::now() - SignedDuration::from_millis(late);
        clock.heard(date, Instant::now());
    }
    let after = clock.origin.load(std::sync::atomic::Ordering::Relaxed);
    // The machine's two clocks are not read in the same instant.
    assert!((after - before).abs() < 100_000, "{before} {after}");
}

#[test]
fn a_slow_answer_tells_less() {
    let clock = Clock::new();
    let sent = Instant::now();
    let date = Timestamp::now();
    clock.hears(date, sent, sent + Duration::from_secs(30));
    assert!(off(&clock, date).abs() < 500, "made at its beginning");
    let date = date + SignedDuration::from_secs(29);
    clock.hears(date, sent, sent + Duration::from_secs(30));
    assert!(
        off(&clock, Timestamp::now()).abs() < 500,
        "or near its end: both are right"
    );
}

#[test]
fn dates_beyond_all_time_do_no_harm() {
    let clock = Clock::new();
    clock.heard(Timestamp::MAX, Instant::now());
    assert!(clock.now() >= Timestamp::from_second(4_000_000_000).expect("a time"));
    clock.heard(Timestamp::MIN, Instant::now());
    clock.heard(Timestamp::now(), Instant::now());
    assert!(off(&clock, Timestamp::now()).abs() < 1500);
}

use std::time::Duration;

use super::{Backoff, watch_backoff};

#[test]
fn each_object_waits_longer_up_to_a_limit_and_starts_anew_after_success() {
    let backoff = Backoff::new();
    let waits: Vec<Duration> = (0..12).map(|_| backoff.failed("a")).collect();
    assert_eq!(waits[..3], [200, 400, 800].map(Duration::from_millis));
    assert_eq!(waits[11], Duration::from_secs(30));
    assert_eq!(backoff.failed("b"), Duration::from_millis(200));
    backoff.succeeded(&"a");
    assert_eq!(backoff.failed("a"), Duration::from_millis(200));
}

#[test]
fn endless_failures_do_not_overflow() {
    let backoff = Backoff::new();
    for _ in 0..100 {
        assert!(backoff.failed("a") <= Duration::from_secs(30));
    }
}

/// An object that failed and is deleted then succeeds never.
#[tokio::test(start_paused = true)]
async fn objects_that_do_not_come_back_are_forgotten() {
    let backoff = Backoff::new();
    for number in 0..100 {
        backoff.failed(number);
    }
    tokio::time::advance(Duration::from_mins(6)).await;
    backoff.failed(0);
    assert_eq!(backoff.0.lock().unwrap().len(), 1);
}

#[test]
fn a_watch_is_never_blind_for_long() {
    let waits: Vec<Duration> = watch_backoff().take(100).collect();
    for (wait, least) in waits.iter().zip([200, 400, 800, 1600, 3200]) {
        let least = Duration::from_millis(least);
        assert!(
            *wait >= least && *wait <= least * 2,
            "{wait:?}, not {least:?}"
        );
    }
    assert!(
        waits.iter().all(|wait| *wait <= Duration::from_secs(8)),
        "{waits:?}"
    );
}

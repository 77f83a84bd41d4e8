use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::ObjectMeta;
use kube::runtime::utils::Backoff as WaitBackoff;

use super::{Backoff, WATCH_WORKED, Waits, WatchBackoff};

fn object(uid: &str) -> ObjectMeta {
    ObjectMeta {
        uid: Some(uid.to_owned()),
        generation: Some(1),
        ..ObjectMeta::default()
    }
}

/// Waits are spread over a tenth.
#[track_caller]
fn check(wait: Duration, least: u64) {
    let least = Duration::from_millis(least);
    assert!(
        wait >= least && wait <= least * 11 / 10,
        "{wait:?}, not {least:?}"
    );
}

#[test]
fn each_object_waits_longer_up_to_a_limit_and_starts_anew_after_success() {
    let backoff = Backoff::new(Waits::DEFAULT);
    let (a, b) = (object("a"), object("b"));
    let waits: Vec<Duration> = (0..12).map(|_| backoff.failed(&a, Duration::MAX)).collect();
    for (wait, least) in waits.iter().zip([200, 400, 800]) {
        check(*wait, least);
    }
    check(waits[11], 30_000);
    check(backoff.failed(&b, Duration::MAX), 200);
    backoff.succeeded(&a);
    check(backoff.failed(&a, Duration::MAX), 200);
}

#[test]
fn endless_failures_do_not_overflow() {
    let backoff = Backoff::new(Waits::DEFAULT);
    for _ in 0..100 {
        assert!(backoff.failed(&object("a"), Duration::MAX) <= Duration::from_secs(33));
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_failed_waits_whatever_wakes_it() {
    let backoff = Backoff::new(Waits::DEFAULT);
    let a = object("a");
    assert_eq!(backoff.rest(&a), None);
    let wait = backoff.failed(&a, Duration::MAX);
    assert_eq!(backoff.rest(&a), Some(wait));
    assert_eq!(backoff.rest(&object("b")), None);
    tokio::time::advance(wait).await;
    assert_eq!(backoff.rest(&a), None);
}

#[test]
fn a_wait_ends_at_a_deadline_that_is_near() {
    let backoff = Backoff::new(Waits::DEFAULT);
    let near = Duration::from_millis(50);
    assert_eq!(backoff.failed(&object("a"), near), near);
}

/// And if that was in vain, its waits start over: they were those of another wish.
#[test]
fn an_object_that_was_edited_or_deleted_is_tried_at_once() {
    let backoff = Backoff::new(Waits::DEFAULT);
    let a = object("a");
    for _ in 0..10 {
        backoff.failed(&a, Duration::MAX);
    }
    let edited = ObjectMeta {
        generation: Some(2),
        ..a.clone()
    };
    assert_eq!(backoff.rest(&edited), None);
    check(backoff.failed(&edited, Duration::MAX), 200);
    check(backoff.failed(&edited, Duration::MAX), 400);
    assert!(backoff.rest(&edited).is_some());
    let deleted = ObjectMeta {
        deletion_timestamp: Some(Time(Timestamp::UNIX_EPOCH)),
        ..edited
    };
    assert_eq!(backoff.rest(&deleted), None);
    check(backoff.failed(&deleted, Duration::MAX), 200);
    assert!(backoff.rest(&deleted).is_some());
}

#[test]
fn a_conflict_holds_back_no_event() {
    let backoff = Backoff::new(Waits::DEFAULT);
    let a = object("a");
    check(backoff.conflicted(&a), 200);
    assert_eq!(backoff.rest(&a), None);
    check(backoff.conflicted(&a), 400);
}

/// An object that failed and is deleted then succeeds never.
#[tokio::test(start_paused = true)]
async fn objects_that_do_not_come_back_are_forgotten() {
    let backoff = Backoff::new(Waits::DEFAULT);
    for number in 0..100 {
        backoff.failed(&object(&number.to_string()), Duration::MAX);
    }
    tokio::time::advance(Duration::from_mins(6)).await;
    backoff.failed(&object("0"), Duration::MAX);
    assert_eq!(backoff.objects.lock().unwrap().failing.len(), 1);
}

#[test]
fn a_watch_is_never_blind_for_long() {
    let waits: Vec<Duration> = WatchBackoff::default().take(100).collect();
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

#[tokio::test(start_paused = true)]
async fn a_watch_that_worked_for_a_while_starts_over_with_the_shortest_wait() {
    let mut waits = WatchBackoff::default();
    let mut after = async |worked: Duration| {
        for _ in 0..8 {
            let wait = waits.next().expect("it never gives up");
            tokio::time::sleep(wait).await;
            // What kube does with each event, also with the one before a list.
            WaitBackoff::reset(&mut waits);
        }
        tokio::time::sleep(worked).await;
        waits.next().expect("it never gives up")
    };
    let broken = after(WATCH_WORKED - Duration::from_millis(1)).await;
    assert!(broken >= Duration::from_secs(4), "{broken:?}");
    let restarted = after(WATCH_WORKED).await;
    assert!(restarted <= Duration::from_millis(400), "{restarted:?}");
}

#[test]
fn each_kind_has_waits_of_its_own() {
    let backoff = Backoff::new(Waits {
        first: Duration::from_millis(5),
        longest: Duration::from_mins(10),
    });
    let a = object("a");
    check(backoff.failed(&a, Duration::MAX), 5);
    for _ in 0..20 {
        backoff.failed(&a, Duration::MAX);
    }
    check(backoff.failed(&a, Duration::MAX), 600_000);
}

/// Its gate would open, and its waits start over.
#[tokio::test(start_paused = true)]
async fn an_object_that_waits_for_long_is_not_forgotten() {
    let backoff = Backoff::new(Waits {
        first: Duration::from_mins(10),
        longest: Duration::from_mins(10),
    });
    let wait = backoff.failed(&object("a"), Duration::MAX);
    tokio::time::advance(Duration::from_mins(9)).await;
    backoff.failed(&object("b"), Duration::MAX);
    assert_eq!(
        backoff.rest(&object("a")),
        Some(wait - Duration::from_mins(9))
    );
}

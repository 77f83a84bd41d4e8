use std::time::Duration;

use jiff::Timestamp;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};

use super::{Counting, Life, PODS, Tally};
use crate::pod::WatchedPod;

const START: &str = "2026-01-01T00:00:00Z";

fn at(seconds: i64) -> Timestamp {
    let start: Timestamp = START.parse().unwrap();
    Timestamp::from_second(start.as_second() + seconds).unwrap()
}

/// A digest of this letter.
fn digest(letter: &str) -> String {
    letter.repeat(64)
}

fn counting(rollout: i64) -> Counting {
    Counting {
        rollout: ("uid".to_owned(), rollout),
        serving: digest("a"),
        candidate: digest("b"),
        since: at(0),
        within: Duration::from_secs(60),
    }
}

fn pod_of(uid: &str, owner: &str, chain: &str, created: i64, status: &Value) -> WatchedPod {
    let owner =
        json!({ "apiVersion": "v1", "kind": "A", "name": "a", "uid": owner, "controller": true });
    let metadata = json!({
        "uid": uid,
        "name": uid,
        "creationTimestamp": at(created).to_string(),
        "annotations": { "podloom.dev/chain": chain, "other": "x" },
        "labels": { "a": "b" },
        "ownerReferences": [owner],
    });
    let pod = json!({ "metadata": metadata, "spec": { "containers": [] }, "status": status });
    serde_json::from_value(pod).unwrap()
}

/// A pod of an owner of its own.
fn pod(uid: &str, letter: &str, created: i64, status: &Value) -> WatchedPod {
    pod_of(
        uid,
        &format!("owner-{uid}"),
        &digest(letter),
        created,
        status,
    )
}

/// Became Ready at this time.
fn ready(seconds: i64) -> Value {
    let time = at(seconds).to_string();
    json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": time }] })
}

fn with_restart(mut status: Value) -> Value {
    status["containerStatuses"] =
        json!([{ "name": "a", "image": "", "imageID": "", "ready": true, "restartCount": 1 }]);
    status
}

fn failed() -> Value {
    json!({ "phase": "Failed" })
}

const fn life(ready: i64, unready: i64, restarted: i64, pods: i64) -> Life {
    Life {
        ready,
        unready,
        restarted,
        pods,
    }
}

#[test]
fn pods_are_judged_by_their_stamp_and_their_time() {
    let tally = Tally::default();
    for pod in [
        pod("a", "a", 5, &ready(10)),
        pod("b", "a", 5, &json!({})),
        pod("c", "b", 5, &ready(10)),
        pod("d", "b", 5, &json!({ "phase": "Succeeded" })),
        pod("e", "b", 5, &with_restart(ready(10))),
        pod("f", "b", 5, &failed()),
        pod("g", "b", 50, &json!({ "phase": "Pending" })),
        // A restart counts at once.
        pod("h", "b", 50, &with_restart(json!({}))),
        // Of another chain, before the rollout, and with something else for a stamp.
        pod("i", "c", 5, &failed()),
        pod("j", "a", -5, &failed()),
        pod_of("k", "o", &"b".repeat(70), 5, &failed()),
        pod_of("l", "o", &"z".repeat(64), 5, &failed()),
    ] {
        tally.see(0, &Event::Apply(pod), at(60));
    }
    let lives = tally.lives(&counting(1), at(60));
    assert_eq!(lives.serving, life(1, 0, 0, 1), "b still has time");
    assert_eq!(lives.candidate, life(3, 1, 2, 5));
    let later = tally.lives(&counting(1), at(65));
    assert_eq!(later.serving, life(1, 1, 0, 2));
    // It became Ready too late, and stays unready.
    tally.see(0, &Event::Apply(pod("b", "a", 5, &ready(66))), at(70));
    assert_eq!(tally.lives(&counting(1), at(70)).serving, life(1, 1, 0, 2));
    // It was Ready once: that it is not any more, says little about its chain.
    let not_ready = json!({ "phase": "Running" });
    tally.see(0, &Event::Apply(pod("c", "b", 5, &not_ready)), at(70));
    // It fails after it was Ready.
    tally.see(0, &Event::Apply(pod("d", "b", 5, &failed())), at(70));
    assert_eq!(
        tally.lives(&counting(1), at(70)).candidate,
        life(2, 2, 2, 5)
    );
}

#[test]
fn one_owner_counts_once_however_often_its_pods_are_bad() {
    let tally = Tally::default();
    tally.lives(&counting(1), at(0));
    for number in 0..50 {
        let pod = pod_of(&format!("{number}"), "one", &digest("b"), 5, &failed());
        tally.see(0, &Event::Apply(pod.clone()), at(6));
        tally.see(0, &Event::Delete(pod), at(7));
    }
    assert_eq!(tally.lives(&counting(1), at(8)).candidate, life(0, 1, 0, 1));
}

#[test]
fn what_is_gone_is_remembered_until_the_next_rollout() {
    let tally = Tally::default();
    tally.lives(&counting(1), at(0));
    for uid in ["a", "b"] {
        tally.see(0, &Event::Apply(pod(uid, "b", 5, &ready(6))), at(6));
        tally.see(0, &Event::Delete(pod(uid, "b", 5, &ready(6))), at(7));
    }
    // It was deleted before it could be Ready: that says nothing.
    tally.see(0, &Event::Apply(pod("c", "b", 5, &json!({}))), at(6));
    tally.see(0, &Event::Delete(pod("c", "b", 5, &json!({}))), at(7));
    assert_eq!(tally.lives(&counting(1), at(8)).candidate, life(2, 0, 0, 2));
    assert_eq!(tally.lives(&counting(2), at(8)).candidate, life(0, 0, 0, 0));
}

#[test]
fn a_pod_that_went_unseen_is_gone_after_the_next_list_of_its_watch() {
    let tally = Tally::default();
    tally.lives(&counting(1), at(0));
    for (watch, uid) in [(0, "a"), (0, "b"), (1, "c")] {
        tally.see(watch, &Event::Init, at(5));
        tally.see(watch, &Event::Apply(pod(uid, "b", 5, &json!({}))), at(6));
    }
    tally.see(0, &Event::Init, at(7));
    tally.see(0, &Event::InitApply(pod("b", "b", 5, &json!({}))), at(7));
    tally.see(0, &Event::InitDone, at(7));
    // Only those that are there can be late.
    let lives = tally.lives(&counting(1), at(100));
    assert_eq!(lives.candidate, life(0, 2, 0, 2));
}

#[test]
fn a_watch_without_the_right_to_see_pods_is_told_until_it_has_listed_them() {
    let tally = Tally::default();
    let is_blind = || tally.lives(&counting(1), at(0)).is_blind;
    tally.blind(0);
    tally.see(1, &Event::InitDone, at(0));
    assert!(is_blind(), "another watch says nothing");
    tally.see(0, &Event::InitDone, at(0));
    assert!(!is_blind());
}

#[test]
fn memory_is_bounded_and_nothing_is_counted_twice() {
    let tally = Tally::default();
    tally.lives(&counting(1), at(0));
    let all = PODS + 500;
    for number in 0..all {
        let (uid, created) = (format!("{number}"), i64::try_from(number).unwrap());
        for _ in 0..2 {
            tally.see(
                0,
                &Event::Apply(pod(&uid, "b", created, &ready(created))),
                at(6),
            );
        }
    }
    // One that is remembered no longer is not counted again.
    tally.see(0, &Event::Apply(pod("0", "b", 0, &ready(0))), at(6));
    let seen = super::lock(&tally.0);
    assert_eq!((seen.pods.len(), seen.order.len()), (PODS, PODS));
    drop(seen);
    let counted = tally.lives(&counting(1), at(8)).candidate.ready;
    assert_eq!(counted, i64::try_from(all).unwrap());
}

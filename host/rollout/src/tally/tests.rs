use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};

use super::{Counting, Life, PODS, Tally, prune};

const START: &str = "2026-01-01T00:00:00Z";

fn at(seconds: i64) -> Timestamp {
    let start: Timestamp = START.parse().unwrap();
    Timestamp::from_second(start.as_second() + seconds).unwrap()
}

fn counting(rollout: i64) -> Counting {
    Counting {
        rollout,
        serving: "old".to_owned(),
        candidate: "new".to_owned(),
        since: at(0),
        within: Duration::from_secs(60),
    }
}

fn pod(uid: &str, chain: &str, created: i64, status: &Value) -> Pod {
    let metadata = json!({
        "uid": uid,
        "name": uid,
        "creationTimestamp": at(created).to_string(),
        "annotations": { "podloom.dev/chain": chain, "other": "x" },
        "labels": { "a": "b" },
    });
    let pod = json!({ "metadata": metadata, "spec": { "containers": [] }, "status": status });
    let mut pod = serde_json::from_value(pod).unwrap();
    prune(&mut pod);
    pod
}

fn ready() -> Value {
    json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] })
}

fn restarted() -> Value {
    let mut status = ready();
    status["containerStatuses"] =
        json!([{ "name": "a", "image": "", "imageID": "", "ready": true, "restartCount": 1 }]);
    status
}

fn life(ready: i64, unready: i64, restarted: i64) -> Life {
    Life {
        ready,
        unready,
        restarted,
        early: 0,
    }
}

#[test]
fn pods_are_judged_by_their_stamp_and_their_time() {
    let tally = Tally::default();
    let failed = || json!({ "phase": "Failed" });
    for pod in [
        pod("a", "old", 5, &ready()),
        pod("b", "old", 5, &json!({})),
        pod("c", "new", 5, &ready()),
        pod("d", "new", 5, &json!({ "phase": "Succeeded" })),
        pod("e", "new", 5, &restarted()),
        pod("f", "new", 5, &failed()),
        pod("g", "new", 50, &json!({ "phase": "Pending" })),
        // Of another chain, and before the rollout.
        pod("h", "other", 5, &ready()),
        pod("i", "old", -5, &ready()),
    ] {
        tally.see(&Event::Apply(pod), at(60));
    }
    let lives = tally.lives(&counting(1), at(60));
    assert_eq!(lives.serving, life(1, 0, 0), "b still has time");
    assert_eq!(lives.candidate, life(3, 1, 1));
    // A restart counts at once.
    let early = pod(
        "j",
        "new",
        50,
        &json!({ "containerStatuses": restarted()["containerStatuses"] }),
    );
    tally.see(&Event::Apply(early), at(60));
    let lives = tally.lives(&counting(1), at(60)).candidate;
    assert_eq!((lives.restarted, lives.early, lives.lived()), (2, 1, 5));
    let later = tally.lives(&counting(1), at(65));
    assert_eq!(later.serving, life(1, 1, 0));
    // It was Ready once: that it is not any more, says little about its chain.
    tally.see(
        &Event::Apply(pod("c", "new", 5, &json!({ "phase": "Running" }))),
        at(70),
    );
    // It fails after it was Ready.
    tally.see(&Event::Apply(pod("d", "new", 5, &failed())), at(70));
    let expected = Life {
        early: 1,
        ..life(2, 2, 2)
    };
    assert_eq!(tally.lives(&counting(1), at(70)).candidate, expected);
}

#[test]
fn what_is_gone_is_remembered_until_the_next_rollout() {
    let tally = Tally::default();
    tally.lives(&counting(1), at(0));
    for uid in ["a", "b"] {
        tally.see(&Event::Apply(pod(uid, "new", 5, &ready())), at(6));
        tally.see(&Event::Delete(pod(uid, "new", 5, &ready())), at(7));
    }
    // It was deleted before it could be Ready: that says nothing.
    tally.see(&Event::Apply(pod("c", "new", 5, &json!({}))), at(6));
    tally.see(&Event::Delete(pod("c", "new", 5, &json!({}))), at(7));
    assert_eq!(tally.lives(&counting(1), at(8)).candidate, life(2, 0, 0));
    assert_eq!(tally.lives(&counting(2), at(8)).candidate, life(0, 0, 0));
}

#[test]
fn memory_is_bounded_and_nothing_is_counted_twice() {
    let tally = Tally::default();
    tally.lives(&counting(1), at(0));
    let all = PODS + 500;
    for number in 0..all {
        let uid = format!("{number}");
        tally.see(&Event::Apply(pod(&uid, "new", 5, &ready())), at(6));
        tally.see(&Event::Apply(pod(&uid, "new", 5, &ready())), at(6));
    }
    let seen = super::lock(&tally.0);
    assert_eq!((seen.pods.len(), seen.order.len()), (PODS, PODS));
    drop(seen);
    let counted = tally.lives(&counting(1), at(8)).candidate.ready;
    assert_eq!(counted, i64::try_from(all).unwrap());
}

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::Pace;
use crate::evict::Target;
use crate::evict::tests::target;

/// When the pods of [`pod`] were created.
const BEGIN: Timestamp = Timestamp::constant(1_767_225_600, 0);

fn pod(owner: &str, number: u32) -> Target {
    let kind = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true });
    target(&format!("{owner}-{number}"), &kind)
}

/// Turns the pace at this second, evicts as many pods as it says, and returns them.
fn turn(pace: &mut Pace, pods: &mut Vec<Target>, second: i64) -> (Vec<String>, u64) {
    let now = BEGIN + SignedDuration::from_secs(second);
    let turn = pace.turn(pods, now);
    let evicted: Vec<Target> = pods.drain(..turn.pods.min(pods.len())).collect();
    for pod in &evicted {
        pace.evicted(&pod.owner.uid, now);
    }
    let names = evicted.into_iter().map(|pod| pod.name);
    (names.collect(), turn.pause.as_secs())
}

/// The pod that a controller creates in the place of an evicted one.
fn replaced(owner: &str, number: u32, second: i64) -> Target {
    Target {
        created: Some(BEGIN + SignedDuration::from_secs(second)),
        ..pod(owner, number)
    }
}

#[test]
fn it_begins_with_one_and_ends_with_twenty() {
    let (mut pace, mut pods) = (Pace::default(), (0..100).map(|it| pod("web", it)).collect());
    let evicted: Vec<usize> = (0..9)
        .map(|second| turn(&mut pace, &mut pods, second).0.len())
        .collect();
    assert_eq!(evicted, [1, 2, 4, 8, 16, 20, 20, 20, 9]);
    assert_eq!(
        turn(&mut pace, &mut pods, 10),
        (vec![], 10),
        "nothing waits"
    );
}

#[test]
fn while_no_webhook_answers_it_tries_one_now_and_then() {
    let (mut pace, mut pods) = (Pace::default(), (0..10).map(|it| pod("web", it)).collect());
    let (mut second, mut pauses, mut tries) = (0, Vec::new(), 0);
    for number in 10..17 {
        tries += turn(&mut pace, &mut pods, second).0.len();
        second += 1;
        pods.push(replaced("web", number, second));
        let (evicted, pause) = turn(&mut pace, &mut pods, second);
        assert!(evicted.is_empty());
        pauses.push(pause);
        second += i64::try_from(pause).unwrap();
    }
    assert_eq!((pauses, tries), (vec![5, 10, 20, 40, 60, 60, 60], 7));
}

#[test]
fn pods_of_others_that_come_to_wait_are_no_failure() {
    let (mut pace, mut pods) = (Pace::default(), vec![pod("web", 0), pod("web", 1)]);
    assert_eq!(turn(&mut pace, &mut pods, 1).0, ["web-0"]);
    // They were created before the try, and were only not listed; or belong to somebody else.
    pods.push(pod("web", 2));
    pods.push(replaced("other", 3, 2));
    assert_eq!(turn(&mut pace, &mut pods, 2).0.len(), 2);
}

#[test]
fn an_owner_that_fails_keeps_no_other_waiting() {
    let (mut pace, mut pods) = (
        Pace::default(),
        vec![pod("aaa", 0), pod("zzz", 0), pod("zzz", 1)],
    );
    assert_eq!(turn(&mut pace, &mut pods, 1).0, ["aaa-0"]);
    pods.push(replaced("aaa", 1, 2));
    assert_eq!(turn(&mut pace, &mut pods, 2).0.len(), 0);
    assert_eq!(turn(&mut pace, &mut pods, 7).0, ["zzz-0"]);
    assert_eq!(turn(&mut pace, &mut pods, 8).0, ["zzz-1", "aaa-1"]);
}

#[test]
fn what_comes_long_after_a_try_is_no_failure() {
    let (mut pace, mut pods) = (Pace::default(), vec![pod("web", 0)]);
    assert_eq!(turn(&mut pace, &mut pods, 1).0.len(), 1);
    pods.push(replaced("web", 1, 100));
    assert_eq!(turn(&mut pace, &mut pods, 101).0, ["web-1"]);
}

use serde_json::{Value, json};

use super::{Object, Pods};
use crate::drift::{Need, Pod};
use crate::heal::{Next, Wait};

/// A pod of a ReplicaSet: its name, whether it is ready, and why it should be replaced.
type Case = (&'static str, bool, Option<Need>);

fn pods(missing: u64, cases: &[Case]) -> Pods {
    let mut pods = Pods {
        missing,
        ..Pods::default()
    };
    for (name, is_ready, need) in cases {
        let status = if *is_ready { "True" } else { "False" };
        let pod = json!({
            "metadata": { "namespace": "shop", "name": name, "uid": name },
            "status": { "conditions": [{ "type": "Ready", "status": status }] },
        });
        pods.add(&Pod(&pod), *need);
    }
    pods
}

/// What to do next, in short.
fn next(missing: u64, before: Option<u64>, cases: &[Case]) -> String {
    match pods(missing, cases).next(before) {
        Next::Evict(target, need, of) => format!("{} {} of {of}", target.name, need.as_str()),
        Next::Wait(why, of) => format!("{why} {of:?}"),
        other => format!("{other:?}"),
    }
}

const MISSED: Option<Need> = Some(Need::Missed);

#[test]
fn one_pod_is_replaced_after_the_other() {
    let old = ("a", true, MISSED);
    let new = ("b", true, None);
    for (missing, before, cases, expected) in [
        (0, None, &[old, new][..], "a missed of 1"),
        (0, None, &[new], "Healed"),
        // Its controller says that another one should be there.
        (
            1,
            None,
            &[old],
            "1 of its pods are not there or not ready Missing",
        ),
        (
            1,
            Some(1),
            &[],
            "1 of its pods are not there or not ready Missing",
        ),
        (
            0,
            Some(2),
            &[old, ("b", false, None)],
            "pod b is not ready NewPod",
        ),
        (0, Some(2), &[old, new], "a missed of 1"),
        // The new one missed the chain, too.
        (0, Some(2), &[old, ("c", true, MISSED)], "MissedAgain"),
        // A pod that is not ready anyway comes first, and the most urgent of the others.
        (1, None, &[old, ("c", false, MISSED)], "c missed of 2"),
        (
            0,
            None,
            &[("c", true, Some(Need::Older)), ("d", true, MISSED)],
            "d missed of 2",
        ),
        (
            0,
            None,
            &[
                ("c", true, Some(Need::Older)),
                ("d", true, Some(Need::Banned)),
            ],
            "d banned of 2",
        ),
    ] {
        assert_eq!(next(missing, before, cases), expected, "{cases:?}");
    }
}

#[test]
fn a_pod_that_leaves_is_waited_for_and_one_that_ended_is_not() {
    let mut pods = pods(0, &[("a", true, MISSED)]);
    let ended = json!({ "metadata": { "name": "b" }, "status": { "phase": "Succeeded" } });
    pods.add(&Pod(&ended), None);
    let leaving =
        json!({ "metadata": { "name": "c", "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    pods.add(&Pod(&leaving), None);
    let Next::Wait(why, Wait::Other) = pods.next(None) else {
        panic!("it waits");
    };
    assert_eq!(why, "pod c is being deleted");
}

/// The controller may be late, or gone, and still say that all are ready.
#[test]
fn pods_that_are_not_there_are_missing_whatever_the_controller_says() {
    let pods = Pods {
        wanted: 3,
        ..pods(0, &[("a", true, MISSED), ("b", true, MISSED)])
    };
    let Next::Wait(why, Wait::Missing) = pods.next(Some(3)) else {
        panic!("it waits");
    };
    assert_eq!(why, "1 of its pods are not there or not ready");
}

#[test]
fn the_controller_says_how_many_are_missing_and_which_are_its_own() {
    let of = |value: &Value| -> Object { serde_json::from_value(value.clone()).unwrap() };
    let set = of(&json!({
        "metadata": {
            "annotations": { "podloom.dev/heal": "false", "other": "a" },
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "Deployment", "name": "a", "uid": "d", "controller": true }],
        },
        "status": { "readyReplicas": 1 },
        "spec": { "replicas": 3, "selector": { "matchLabels": { "app": "a" }, "matchExpressions": [{ "key": "b", "operator": "Exists" }] } },
    }));
    assert_eq!(
        (set.wanted("ReplicaSet"), set.missing("ReplicaSet")),
        (3, 2)
    );
    assert_eq!(set.selector("ReplicaSet").unwrap(), "app=a,b");
    assert_eq!(set.metadata.controller().unwrap(), "d");
    assert!(set.metadata.is_left());
    let daemon =
        of(&json!({ "metadata": {}, "status": { "desiredNumberScheduled": 2, "numberReady": 1 } }));
    assert_eq!(
        (daemon.wanted("DaemonSet"), daemon.missing("DaemonSet")),
        (2, 1)
    );
    let controller = of(&json!({ "metadata": {}, "spec": { "selector": { "app": "a" } } }));
    assert_eq!(
        controller.selector("ReplicationController").unwrap(),
        "app=a"
    );
    let job = of(&json!({ "metadata": {}, "spec": { "parallelism": 2 } }));
    assert_eq!((job.wanted("Job"), job.selector("Job")), (0, None));
}

use jiff::ToSpan as _;
use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-01-01T01:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn pool() -> Pool {
    Pool {
        config: "browsers".to_owned(),
        uid: "c-1".to_owned(),
        browser: "chrome".to_owned(),
        version: "139.0".to_owned(),
    }
}

fn recipe() -> Arc<Recipe> {
    Arc::new(Recipe::of(json!({ "spec": { "containers": [] } }), false))
}

/// A warm pod of that name which was made so many seconds ago, with differences as a merge-patch.
fn pod(name: &str, age: i64, differences: &Value) -> Arc<SeenPod> {
    let made = now().checked_sub(age.seconds()).unwrap();
    let mut pod = json!({
        "metadata": {
            "name": name, "namespace": "team-a", "uid": name, "resourceVersion": "1", "creationTimestamp": made.to_string(),
            "labels": { "selenosis.io/browser.name": "chrome", "selenosis.io/browser.version": "139.0" },
            "annotations": { "selenosis.io/warm.hash": recipe().hash },
            "ownerReferences": [{ "apiVersion": "selenosis.io/v1", "kind": "BrowserConfig", "name": "browsers", "uid": "c-1", "controller": true }],
        },
        "status": {
            "phase": "Running", "podIP": "10.0.0.1",
            "containerStatuses": [{ "name": "browser", "image": "i", "restartCount": 0, "state": { "running": {} } }],
        },
    });
    json_patch::merge(&mut pod, differences);
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn ready(name: &str, age: i64) -> Arc<SeenPod> {
    pod(name, age, &json!({}))
}

fn starting(name: &str, age: i64) -> Arc<SeenPod> {
    pod(name, age, &json!({ "status": { "phase": "Pending" } }))
}

fn failed(name: &str, age: i64) -> Arc<SeenPod> {
    pod(
        name,
        age,
        &json!({ "status": { "phase": "Failed", "message": "no memory" } }),
    )
}

fn warm(wanted: usize, pods: Vec<Arc<SeenPod>>) -> Warm {
    Warm {
        keeps: vec![Keep {
            pool: pool(),
            wanted,
            max_age: Duration::from_mins(10),
            max_starting: 2,
            recipe: Ok(recipe()),
            pods,
        }],
        start_within: Duration::from_mins(5),
        ..Warm::default()
    }
}

/// What is made, or whose pods go.
fn step(warm: &Warm) -> String {
    match warm.step(now()) {
        None => "nothing".to_owned(),
        Some(Step::Make { count, .. }) => format!("make {count}"),
        Some(Step::Drop(doomed)) => {
            let names: Vec<_> = doomed.iter().map(|it| it.name.as_str()).collect();
            format!("drop {}", names.join(" "))
        }
    }
}

#[test]
fn as_many_as_wanted_are_kept() {
    let unready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "False", "reason": "ContainersNotReady" }] } });
    let going = json!({ "metadata": { "deletionTimestamp": NOW } });
    for (what, wanted, pods, expected) in [
        ("none is there", 1, vec![], "make 1"),
        ("few start at the same time", 5, vec![], "make 2"),
        ("some are on their way", 5, vec![starting("a", 1)], "make 1"),
        (
            "enough are on their way",
            5,
            vec![starting("a", 1), starting("b", 1)],
            "nothing",
        ),
        (
            "enough are there",
            2,
            vec![ready("a", 1), starting("b", 1)],
            "nothing",
        ),
        (
            "none is wanted",
            0,
            vec![ready("a", 1), ready("b", 2)],
            "drop a b",
        ),
        (
            "the youngest goes",
            1,
            vec![ready("a", 30), ready("b", 2)],
            "drop b",
        ),
        (
            "one that is not ready is none",
            1,
            vec![pod("a", 1, &unready)],
            "nothing",
        ),
        (
            "one that is going is none",
            1,
            vec![pod("a", 1, &going)],
            "make 1",
        ),
    ] {
        assert_eq!(step(&warm(wanted, pods)), expected, "{what}");
    }
}

#[test]
fn what_serves_no_more_is_replaced() {
    let outdated = json!({ "metadata": { "annotations": { "selenosis.io/warm.hash": "old" } } });
    let exited = json!({ "status": { "containerStatuses": [{ "name": "seleniferous", "image": "i", "restartCount": 0, "state": { "terminated": { "exitCode": 0 } } }] } });
    for (what, wanted, pods, expected) in [
        (
            "one of old makes place",
            1,
            vec![pod("a", 1, &outdated)],
            "drop a",
        ),
        (
            "one that failed is looked at",
            1,
            vec![failed("a", 59)],
            "nothing",
        ),
        ("and then replaced", 1, vec![failed("a", 60)], "drop a"),
        (
            "a container that ended counts",
            1,
            vec![pod("a", 1, &exited)],
            "nothing",
        ),
        (
            "one that does not start goes",
            1,
            vec![starting("a", 300)],
            "drop a",
        ),
        (
            "before it is too old, another is made",
            1,
            vec![ready("a", 540)],
            "make 1",
        ),
        (
            "and until that is ready, it stays",
            1,
            vec![ready("a", 541), starting("b", 1)],
            "nothing",
        ),
        (
            "then it goes",
            1,
            vec![ready("a", 541), ready("b", 1)],
            "drop a",
        ),
        (
            "it goes in any case once it is too old",
            1,
            vec![ready("a", 600)],
            "drop a",
        ),
    ] {
        assert_eq!(step(&warm(wanted, pods)), expected, "{what}");
    }
}

#[test]
fn pods_of_no_pool_go() {
    let mut warm = warm(0, Vec::new());
    warm.others = vec![ready("a", 1)];
    assert_eq!(step(&warm), "drop a");
    warm.dropped(&["a".to_owned()]);
    assert_eq!(step(&warm), "nothing");
}

#[test]
fn without_a_recipe_what_is_there_stays() {
    let mut warm = warm(2, vec![ready("a", 1)]);
    warm.keeps[0].recipe = Err("the plugin labels denied the pod".to_owned());
    assert_eq!(step(&warm), "nothing");
    let message = warm.status(now()).unwrap().message;
    assert_eq!(
        message.as_deref(),
        Some("chrome 139.0: the plugin labels denied the pod")
    );
}

#[test]
fn what_is_refused_is_not_tried_again_in_the_same_pass() {
    let mut warm = warm(2, Vec::new());
    warm.made(vec![starting("a", 0)], Some("exceeded quota".to_owned()));
    assert_eq!(step(&warm), "nothing");
    let status = warm.status(now()).unwrap();
    assert_eq!((status.ready, status.wanted), (0, 2));
    assert_eq!(status.message.as_deref(), Some("exceeded quota"));
}

#[test]
fn the_status_counts_what_a_session_could_take() {
    let pods = vec![
        ready("a", 1),
        ready("b", 541),
        starting("c", 1),
        failed("d", 1),
    ];
    let status = warm(4, pods).status(now()).unwrap();
    assert_eq!((status.ready, status.wanted), (2, 4));
    assert_eq!(
        status.message.as_deref(),
        Some("pod d: pod has failed with reason: Unknown - no memory")
    );
    assert_eq!(Warm::default().status(now()), None);
}

use jiff::ToSpan as _;
use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-01-01T01:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn id() -> PoolId {
    PoolId {
        config: "browsers".to_owned(),
        uid: "c-1".to_owned(),
        browser: "chrome".to_owned(),
        version: "139.0".to_owned(),
    }
}

fn recipe() -> Arc<Recipe> {
    Arc::new(Recipe::of(json!({ "spec": { "containers": [] } }), None))
}

/// A warm pod of that name which was made so many seconds ago, with differences as a merge-patch.
fn pod(name: &str, age: i64, differences: &Value) -> Arc<SeenPod> {
    let made = now().checked_sub(age.seconds()).unwrap();
    let mut pod = json!({
        "metadata": {
            "name": name, "namespace": "team-a", "uid": name, "resourceVersion": "1", "creationTimestamp": made.to_string(),
            "labels": { "selenosis.io/warm": "browsers", "selenosis.io/browser.name": "chrome", "selenosis.io/browser.version": "139.0" },
            "annotations": { "podloom.dev/recipe": recipe().hash },
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

fn pools(wanted: usize, pods: Vec<Arc<SeenPod>>) -> Pools {
    let pool = Pool {
        id: id(),
        wanted,
        max_age: Duration::from_mins(10),
        max_starting: 2,
        start_within: Duration::from_mins(5),
        recipe: Some(recipe()),
        problem: None,
        pods,
        refused: None,
        is_cut_short: false,
    };
    Pools {
        all: vec![pool],
        ..Pools::default()
    }
}

/// How many are created, or which go.
fn action(pools: &Pools) -> String {
    match pools.action(now()) {
        None => "nothing".to_owned(),
        Some(PoolAction::Create(lacking)) => {
            let counts: Vec<_> = lacking.iter().map(|(_, count)| count.to_string()).collect();
            format!("create {}", counts.join(" "))
        }
        Some(PoolAction::Delete(doomed)) => {
            let names: Vec<_> = doomed.iter().map(|it| it.name.as_str()).collect();
            format!("delete {}", names.join(" "))
        }
    }
}

fn created(pods: Vec<Arc<SeenPod>>, refused: Option<&str>) -> Vec<Created> {
    vec![Created {
        id: id(),
        pods,
        refused: refused.map(str::to_owned),
        is_cut_short: false,
    }]
}

#[test]
fn as_many_as_wanted_are_kept() {
    let unready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "False", "reason": "ContainersNotReady" }] } });
    let going = json!({ "metadata": { "deletionTimestamp": NOW } });
    for (what, wanted, pods, expected) in [
        ("none is there", 1, vec![], "create 1"),
        ("few start at the same time", 5, vec![], "create 2"),
        (
            "some are on their way",
            5,
            vec![starting("a", 1)],
            "create 1",
        ),
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
            "delete a b",
        ),
        (
            "the youngest goes",
            1,
            vec![ready("a", 30), ready("b", 2)],
            "delete b",
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
            "create 1",
        ),
    ] {
        assert_eq!(action(&pools(wanted, pods)), expected, "{what}");
    }
}

#[test]
fn what_serves_no_more_is_replaced() {
    let outdated = json!({ "metadata": { "annotations": { "podloom.dev/recipe": "old" } } });
    let exited = json!({ "status": { "containerStatuses": [{ "name": "seleniferous", "image": "i", "restartCount": 0, "state": { "terminated": { "exitCode": 0 } } }] } });
    for (what, wanted, pods, expected) in [
        (
            "one of old makes place",
            1,
            vec![pod("a", 1, &outdated)],
            "delete a",
        ),
        (
            "one that failed is looked at",
            1,
            vec![failed("a", 59)],
            "nothing",
        ),
        ("and then replaced", 1, vec![failed("a", 60)], "delete a"),
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
            "delete a",
        ),
        (
            "before it is too old, another is made",
            1,
            vec![ready("a", 540)],
            "create 1",
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
            "delete a",
        ),
        (
            "it goes in any case once it is too old",
            1,
            vec![ready("a", 600)],
            "delete a",
        ),
    ] {
        assert_eq!(action(&pools(wanted, pods)), expected, "{what}");
    }
}

#[test]
fn of_too_many_the_least_useful_go() {
    let all = vec![
        failed("old-failed", 30),
        starting("starting", 20),
        ready("ready", 2),
    ];
    assert_eq!(action(&pools(1, all.clone())), "delete old-failed starting");
    assert_eq!(action(&pools(2, all)), "delete old-failed");
}

#[test]
fn a_pod_that_ended_is_shown_for_a_minute_from_then_on() {
    let ended = |ago: i64| {
        let at = now().checked_sub(ago.seconds()).unwrap().to_string();
        let state = json!({ "terminated": { "exitCode": 0, "finishedAt": at } });
        let container =
            json!({ "name": "seleniferous", "image": "i", "restartCount": 0, "state": state });
        pod(
            "a",
            180,
            &json!({ "status": { "containerStatuses": [container] } }),
        )
    };
    assert_eq!(action(&pools(1, vec![ended(59)])), "nothing");
    assert_eq!(action(&pools(1, vec![ended(60)])), "delete a");
}

#[test]
fn pods_of_no_pool_go() {
    let mut pools = pools(0, Vec::new());
    pools.others = vec![ready("a", 1)];
    assert_eq!(action(&pools), "delete a");
    pools.deleted(&["a".to_owned()]);
    assert_eq!(action(&pools), "nothing");
}

#[test]
fn without_a_recipe_what_is_there_stays() {
    let mut pools = pools(2, vec![ready("a", 1)]);
    pools.all[0].recipe = None;
    pools.all[0].problem = Some("the plugin labels denied the pod".to_owned());
    assert_eq!(action(&pools), "nothing");
    let message = pools.status(now()).unwrap().message;
    assert_eq!(
        message.as_deref(),
        Some("chrome 139.0: the plugin labels denied the pod")
    );
}

#[test]
fn what_takes_long_is_left_to_another_pass() {
    let mut pools = pools(2, Vec::new());
    let mut cut_short = created(vec![starting("a", 0)], None);
    cut_short[0].is_cut_short = true;
    pools.created(cut_short);
    assert_eq!(action(&pools), "nothing");
}

#[test]
fn what_is_refused_is_not_tried_again_in_the_same_pass_and_keeps_nobody_else() {
    let mut pools = pools(2, Vec::new());
    let mut other = pools.all[0].clone();
    other.id.version = "138.0".to_owned();
    pools.all.push(other);
    assert_eq!(action(&pools), "create 2 2");
    pools.created(created(vec![starting("a", 0)], Some("exceeded quota")));
    assert_eq!(action(&pools), "create 2");
    assert_eq!(pools.refused(), Some("exceeded quota"));
    let status = pools.status(now()).unwrap();
    assert_eq!((status.ready, status.wanted), (0, 4));
    assert_eq!(
        status.message.as_deref(),
        Some("chrome 139.0: exceeded quota")
    );
}

#[test]
fn a_pod_that_is_changed_when_it_is_created_is_not_created_again() {
    let changed = json!({ "metadata": { "labels": { "selenosis.io/browser.version": "x" } } });
    let mut pools = pools(2, Vec::new());
    pools.created(created(vec![pod("a", 0, &changed)], None));
    assert_eq!(action(&pools), "nothing");
    let why = "an admission policy changes the labels or annotations of warm pods";
    assert_eq!(pools.refused(), Some(why));
}

#[test]
fn the_status_counts_what_a_session_could_take() {
    let unschedulable = json!({ "status": { "phase": "Pending", "conditions": [
        { "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available" },
    ] } });
    let pods = vec![
        ready("a", 1),
        ready("b", 541),
        pod("c", 2, &unschedulable),
        failed("d", 1),
    ];
    let message = |pods| {
        let status = pools(4, pods).status(now()).unwrap();
        assert_eq!((status.ready, status.wanted), (2, 4));
        status.message.unwrap()
    };
    assert_eq!(
        message(pods.clone()),
        "chrome 139.0: pod c: 0/3 nodes are available"
    );
    let pods = pods
        .into_iter()
        .filter(|pod| pod.metadata.name.as_deref() != Some("c"));
    assert_eq!(
        message(pods.collect()),
        "chrome 139.0: pod d: pod has failed with reason: Unknown - no memory"
    );
    assert_eq!(Pools::default().status(now()), None);
}

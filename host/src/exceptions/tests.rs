use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use podloom_mutation::{Effect, PodRequest};
use serde_json::{Value, json};

use super::{Exceptions, OF_NAMESPACE};

fn exceptions(specs: &[(&str, Value)]) -> Exceptions {
    let all = Exceptions::default();
    for (name, spec) in specs {
        let created = Timestamp::now() - SignedDuration::from_hours(1);
        let mut object = json!({
            "apiVersion": "chain.podloom.dev/v1alpha1", "kind": "ChainException",
            "metadata": { "name": name, "namespace": "shop", "creationTimestamp": created },
            "spec": { "plugins": ["a"], "reason": "x", "until": Timestamp::now() + SignedDuration::from_hours(1) },
        });
        for (field, value) in spec.as_object().unwrap() {
            object["spec"][field] = value.clone();
        }
        all.add("shop", object);
    }
    all
}

/// The names of those that hold for a pod of the Deployment web with the label app=web.
fn found(all: &Exceptions, change: impl FnOnce(&mut PodRequest)) -> Vec<String> {
    let pod = json!({ "metadata": { "labels": { "app": "web" } } });
    let mut request = PodRequest {
        kind: "Pod",
        namespace: "shop".to_owned(),
        owner: "Deployment/shop/web".to_owned(),
        labels: BTreeMap::default(),
        ..PodRequest::default()
    };
    change(&mut request);
    let found = all.of(&pod, &request);
    found.iter().map(|it| it.name.clone()).collect()
}

#[test]
fn pods_are_chosen_by_their_labels_or_their_owner() {
    let labels =
        |value: &str| json!({ "pods": { "selector": { "matchLabels": { "app": value } } } });
    let owner =
        |kind: &str, name: &str| json!({ "pods": { "owner": { "kind": kind, "name": name } } });
    let all = exceptions(&[
        ("b-all", json!({ "pods": { "selector": {} } })),
        ("a-labels", labels("web")),
        ("other-labels", labels("db")),
        ("c-owner", owner("Deployment", "web")),
        ("other-owner", owner("StatefulSet", "web")),
        ("other-name", owner("Deployment", "db")),
        // The API server lets neither of them in.
        ("none", json!({ "pods": {} })),
        (
            "unreadable",
            json!({ "pods": { "selector": {} }, "until": "soon" }),
        ),
    ]);
    assert_eq!(found(&all, |_| {}), ["a-labels", "b-all", "c-owner"]);
    assert_eq!(found(&all, |it| it.namespace = "other".to_owned()), [""; 0]);
    assert_eq!(found(&all, |it| it.kind = "Browser"), [""; 0]);
    let owned = |owner: &str| {
        let owner = owner.to_owned();
        move |it: &mut PodRequest| it.owner = owner
    };
    // Another installation has another chain.
    let others = Exceptions {
        webhook: Some("others".to_owned()),
        ..all
    };
    assert_eq!(found(&others, |_| {}), [""; 0]);
    let all = Exceptions {
        webhook: Some("podloom-webhook".to_owned()),
        ..others
    };
    assert_eq!(found(&all, |_| {}), ["a-labels", "b-all", "c-owner"]);
    // A session that passes the webhook, and the pod of a tunnel.
    assert_eq!(found(&all, owned("Browser/shop/chrome")), [""; 0]);
    assert_eq!(found(&all, owned("")), [""; 0]);
}

#[test]
fn the_jobs_of_a_cron_job_belong_to_it() {
    let all = exceptions(&[(
        "cron",
        json!({ "pods": { "owner": { "kind": "CronJob", "name": "import" } } }),
    )]);
    for (owner, number) in [
        // As its Jobs are called, and as files have it.
        ("Job/shop/import-29384756", 1),
        ("CronJob/shop/import", 1),
        ("Job/shop/import", 0),
        ("Job/shop/import-by-hand", 0),
        ("Job/shop/import-", 0),
        ("Job/shop/other-29384756", 0),
    ] {
        let owner = owner.to_owned();
        assert_eq!(found(&all, |it| it.owner = owner).len(), number);
    }
}

#[test]
fn one_that_is_being_deleted_holds_no_longer_and_only_so_many_count() {
    let all = Exceptions::default();
    for number in 0..=OF_NAMESPACE {
        let deleted = (number == 0).then(Timestamp::now);
        all.add(
            "shop",
            json!({
                "metadata": { "name": format!("{number:03}"), "deletionTimestamp": deleted },
                "spec": { "pods": { "selector": {} }, "plugins": ["a"], "reason": "x", "until": "2999-01-01T00:00:00Z" },
            }),
        );
    }
    let found = found(&all, |_| {});
    assert_eq!((found.len(), found[0].as_str()), (OF_NAMESPACE - 1, "001"));
}

#[test]
fn one_that_ended_holds_no_longer_and_its_time_counts_from_its_creation() {
    let until = |seconds: i64| {
        let until = Timestamp::now() + SignedDuration::from_secs(seconds);
        json!({ "pods": { "selector": {} }, "until": until })
    };
    let all = exceptions(&[("ended", until(-1)), ("holds", until(3600))]);
    assert_eq!(found(&all, |_| {}), ["holds"]);
    let request = PodRequest {
        kind: "Pod",
        namespace: "shop".to_owned(),
        owner: "Deployment/shop/web".to_owned(),
        ..PodRequest::default()
    };
    let [holds] = &*all.of(&json!({}), &request) else {
        panic!("one holds");
    };
    assert_eq!(holds.effect, Effect::Warn);
    let two_hours = Duration::from_hours(2);
    assert!(holds.lasts <= two_hours && holds.lasts > two_hours - Duration::from_mins(1));
}

use std::sync::Arc;

use jiff::Timestamp;
use kube::core::{ApiResource, ObjectMeta};
use podloom_api::CleanerSpec;
use podloom_api::names::cleaner::lifetime::JANITOR_TTL;
use podloom_engine::plan::Then;
use serde_json::{Value, json};

use super::{Action, Found, World, cleaner_name, plan};
use crate::lifetime::marks::expiry;
use crate::world::StoredCleaner;

const NOW: &str = "2026-01-30T12:00:00.4Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn pod(ttl: &str) -> ObjectMeta {
    serde_json::from_value(json!({
        "name": "web", "namespace": "demo", "uid": "2b1f8a90-aaaa", "creationTimestamp": "2026-01-30T11:00:00Z",
        "annotations": { JANITOR_TTL: ttl },
    }))
    .unwrap()
}

/// The world of a pod that was read from the API server.
fn world(ttl: &str, cleaner: Found) -> World {
    let object = pod(ttl);
    World {
        kind: Arc::new(ApiResource {
            group: String::new(),
            version: "v1".to_owned(),
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            plural: "pods".to_owned(),
        }),
        expiry: expiry(&object),
        is_live: true,
        cleaner,
        is_dry_run: false,
        told: None,
        refused: None,
        object,
    }
}

fn created(ttl: &str) -> CleanerSpec {
    match plan(&world(ttl, Found::Nothing), now()).action {
        Some(Action::Create(spec)) => *spec,
        other => unreachable!("{other:?}"),
    }
}

/// The Cleaner that was made for a pod, with changes of its JSON.
fn ours(ttl: &str, change: impl Fn(&mut Value)) -> Found {
    let mut cleaner = json!({
        "metadata": { "name": "pod-web-2b1f8a90", "creationTimestamp": "2026-01-30T12:00:00Z" },
        "spec": created(ttl),
    });
    change(&mut cleaner);
    let stored: StoredCleaner = serde_json::from_value(cleaner).unwrap();
    Found::Ours(Box::new(stored))
}

fn action(world: &World) -> Option<Action> {
    plan(world, now()).action
}

#[track_caller]
fn changes(world: &World, expected: impl Fn(&CleanerSpec) -> bool) {
    match action(world) {
        Some(Action::Change(spec)) => assert!(expected(&spec), "{spec:?}"),
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn an_object_is_read_before_it_gets_a_cleaner() {
    let mut cached = world("3h", Found::Nothing);
    cached.is_live = false;
    assert_eq!(action(&cached), Some(Action::Read));
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_yaml_snapshot!("the_cleaner_of_a_pod", created("3h"));
    });
}

#[test]
fn the_time_that_is_left_is_in_whole_seconds_and_never_negative() {
    for (ttl, expected) in [("1h", "0"), ("1s", "0"), ("3601s", "1s"), ("4w", "671h")] {
        assert_eq!(created(ttl).ttl, expected, "{ttl}");
    }
    // Longer than a Cleaner can wait.
    assert_eq!(created("15000w").ttl, "2519999h");
    assert_eq!(
        action(&world("15000w", ours("15000w", |_| {}))),
        None,
        "it is kept"
    );
}

#[test]
fn a_cleaner_as_it_should_be_is_kept_also_if_it_is_a_little_late() {
    let at = |time: &str| {
        ours("3h", |it| {
            it["metadata"]["creationTimestamp"] = json!(time);
        })
    };
    for time in ["2026-01-30T12:00:00Z", "2026-01-30T12:00:10Z"] {
        let plan = plan(&world("3h", at(time)), now());
        assert_eq!((plan.action, plan.then), (None, Then::Change), "{time}");
    }
    let late = world("3h", at("2026-01-30T12:00:11Z"));
    changes(&late, |spec| spec.ttl == "1h59m49s");
    let early = world("3h", at("2026-01-30T11:59:59Z"));
    changes(&early, |spec| spec.ttl == "2h1s");
}

#[test]
fn a_cleaner_follows_its_object_and_keeps_what_somebody_has_set() {
    let others = |it: &mut Value| it["spec"]["retry"] = json!({ "period": "1h" });
    changes(&world("5h", ours("3h", others)), |spec| {
        spec.ttl == "4h"
            && spec.conditions[1].ends_with(" == \"5h\"")
            && spec.retry.as_ref().is_some_and(|it| it.period == "1h")
    });
    // The same time by another word: the conditions name the mark.
    changes(&world("180m", ours("3h", |_| {})), |spec| spec.ttl == "2h");
    let mut dry = world("3h", ours("3h", |_| {}));
    dry.is_dry_run = true;
    changes(&dry, |spec| spec.dry_run);
    assert_eq!(action(&world("3h", ours("3h", others))), None);
}

#[test]
fn without_a_time_the_cleaner_goes_and_a_bad_value_is_told_once() {
    assert_eq!(
        action(&world("forever", ours("3h", |_| {}))),
        Some(Action::Delete)
    );
    assert_eq!(action(&world("forever", Found::Nothing)), None);
    assert_eq!(action(&world("forever", Found::Foreign)), None);
    let mut bad = world("soon", ours("3h", |_| {}));
    assert_eq!(action(&bad), Some(Action::Delete));
    bad.cleaner = Found::Nothing;
    tells(&bad, "the annotation janitor/ttl is \"soon\": write");
}

/// It tells this, and nothing after that.
#[track_caller]
fn tells(world: &World, expected: &str) {
    let told = plan(world, now());
    let Some(Action::Tell(text)) = told.action else {
        unreachable!("{:?}", told.action)
    };
    assert!(text.starts_with(expected), "{text}");
    assert_eq!(told.notices.first().map(|it| &it.note), Some(&text));
    let told = World {
        told: Some(text),
        ..world.clone()
    };
    assert_eq!(action(&told), None);
}

#[test]
fn what_is_not_ours_or_begins_to_delete_is_left_alone() {
    tells(
        &world("3h", Found::Foreign),
        "a Cleaner pod-web-2b1f8a90 exists",
    );
    let unseen = plan(&world("3h", Found::Unseen), now());
    assert!(matches!(
        (unseen.action, unseen.then),
        (None, Then::At(at)) if at > now()
    ));
    let committed = |it: &mut Value| {
        it["status"] =
            json!({ "deletion": { "phase": "Targets", "phaseStartedAt": NOW, "objects": [] } });
    };
    let deleted = |it: &mut Value| it["metadata"]["deletionTimestamp"] = json!(NOW);
    for ttl in ["5h", "forever", "soon"] {
        assert_eq!(action(&world(ttl, ours("3h", committed))), None);
        assert_eq!(action(&world(ttl, ours("3h", deleted))), None);
    }
    let mut going = world("5h", Found::Nothing);
    going.object.deletion_timestamp = going.object.creation_timestamp.clone();
    assert_eq!(action(&going), None);
}

#[test]
fn what_is_refused_is_told_and_tried_again() {
    let mut refused = world("3h", Found::Nothing);
    refused.refused = Some("no".to_owned());
    tells(&refused, "no");
    refused.told = refused.refused.clone();
    let again = plan(&refused, now()).then;
    assert!(matches!(again, Then::Retry { message, .. } if message == "no"));
}

#[test]
fn names_are_those_of_cleaners_whatever_the_object_is_called() {
    let named = |name: &str| {
        let mut world = world("3h", Found::Nothing);
        world.object.name = Some(name.to_owned());
        cleaner_name(&world)
    };
    assert_eq!(named("web"), "pod-web-2b1f8a90");
    assert_eq!(named("System:a.b"), "pod-system-a-b-2b1f8a90");
    let long = named(&"a".repeat(253));
    assert_eq!(long.len(), 209);
    assert!(long.ends_with("a-2b1f8a90"));
}

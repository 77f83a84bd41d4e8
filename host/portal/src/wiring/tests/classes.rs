use std::sync::Arc;

use kube::runtime::watcher::Event;
use podloom_api::{PortalExpose, TunnelClass};
use podloom_engine::cache::{Cache, Watch};
use podloom_engine::wiring::Wiring;
use serde_json::{Value, json};

use super::super::{Class, wake_classes, wake_users};
use crate::class::ClassKind;
use crate::kind::ExposeKind;
use crate::wiring::exposes::Exposes;

fn class(name: &str, generation: i64, annotations: &Value) -> Class {
    serde_json::from_value(json!({
        "metadata": { "name": name, "uid": name, "generation": generation, "annotations": annotations },
        "spec": { "replicas": 1, "size": "small" },
    }))
    .unwrap()
}

fn plain(generation: i64) -> Class {
    class("small", generation, &json!({}))
}

fn default(generation: i64) -> Class {
    let annotations = json!({ "portal.gosuda.org/is-default-class": "true" });
    class("small", generation, &annotations)
}

/// PortalExposes: one names the class small, one another class, and one none.
fn exposes() -> Exposes {
    let exposes = [
        ("named", json!("small")),
        ("other", json!("large")),
        ("unset", json!("")),
    ];
    let exposes = exposes.map(|(name, class)| {
        let expose = json!({
            "metadata": { "name": name, "namespace": "team" },
            "spec": {
                "app": { "name": "a", "service": { "name": "a", "port": 1 } },
                "relay": { "targets": [] }, "tunnelClassName": class,
            },
        });
        serde_json::from_value(expose).unwrap()
    });
    let watch = Watch::of_kind::<ExposeKind>("", &Arc::new(PortalExpose::resource()));
    Cache::of(watch, exposes)
}

/// Who is woken by an event, after these; and whether another class is.
fn woken(before: Vec<Event<Class>>, event: &Event<Class>) -> (Vec<String>, bool) {
    let exposes = exposes();
    let watch = Watch::of_kind::<ClassKind>("", &Arc::new(TunnelClass::resource()));
    let classes = Cache::of(watch, [another()]);
    wake_classes(&classes);
    let _of_classes = Wiring::<ClassKind>::new(&classes);
    let _of_exposes = Wiring::<ExposeKind>::new(&exposes).watches(&classes, wake_users);
    for event in before {
        classes.show(None, &event);
    }
    // Only what the last event wakes counts.
    let _ = (exposes.noted(), classes.noted());
    classes.show(None, event);
    let others = classes.noted();
    (exposes.noted(), others.contains(&"another".to_owned()))
}

fn another() -> Class {
    class("another", 1, &json!({}))
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().copied().map(str::to_owned).collect()
}

#[test]
fn a_class_wakes_those_that_name_it() {
    let (woken, others) = woken(vec![], &Event::Apply(plain(1)));
    assert_eq!((woken, others), (names(&["named"]), false));
}

#[test]
fn a_default_wakes_those_without_a_class_and_the_other_classes() {
    let expected = (names(&["named", "unset"]), true);
    assert_eq!(woken(vec![], &Event::Apply(default(1))), expected);
    let applied = || vec![Event::Apply(plain(1))];
    assert_eq!(woken(applied(), &Event::Apply(default(1))), expected);
    let applied = || vec![Event::Apply(default(1))];
    assert_eq!(woken(applied(), &Event::Apply(plain(1))), expected);
    assert_eq!(woken(applied(), &Event::Delete(default(1))), expected);
}

#[test]
fn a_status_wakes_nobody() {
    let applied = || Event::Apply(default(1));
    assert_eq!(woken(vec![applied()], &applied()), (names(&[]), false));
}

#[test]
fn a_change_of_the_spec_wakes() {
    let (woken, _) = woken(vec![Event::Apply(plain(1))], &Event::Apply(plain(2)));
    assert_eq!(woken, names(&["named"]));
}

#[test]
fn everybody_looks_after_a_list() {
    let listed = vec![Event::Init, Event::InitApply(another())];
    let (woken, others) = woken(listed, &Event::InitDone);
    assert_eq!((woken, others), (names(&["named", "other", "unset"]), true));
}

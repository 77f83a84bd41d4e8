use std::sync::Arc;

use futures::{FutureExt, StreamExt, stream};
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::Event;
use podloom_api::{PortalExpose, TunnelClass};
use podloom_engine::wakes::Wakes;
use serde_json::{Value, json};

use super::super::{Class, cached};
use crate::wiring::exposes::{Exposes, Scope};

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
    let resource = Arc::new(PortalExpose::resource());
    let mut cache = Writer::new(Arc::clone(&resource));
    for (name, class) in [
        ("named", json!("small")),
        ("other", json!("large")),
        ("unset", json!("")),
    ] {
        let expose = json!({
            "metadata": { "name": name, "namespace": "team" },
            "spec": {
                "app": { "name": "a", "service": { "name": "a", "port": 1 } },
                "relay": { "targets": [] }, "tunnelClassName": class,
            },
        });
        cache.apply_watcher_event(&Event::Apply(serde_json::from_value(expose).unwrap()));
    }
    let scope = Scope {
        namespace: None,
        store: cache.as_reader(),
        resource,
        wakes: Wakes::default(),
    };
    Exposes([scope].into())
}

/// Who is woken by an event, after these.
async fn woken(before: Vec<Event<Class>>, event: Event<Class>) -> (Vec<String>, bool) {
    let resource = Arc::new(TunnelClass::resource());
    let (exposes, classes) = (exposes(), Wakes::default());
    let writer = Writer::new(Arc::clone(&resource));
    let count = before.len() + 1;
    let events = stream::iter(before.into_iter().chain([event]).map(Ok));
    let mut events = std::pin::pin!(cached(
        events,
        writer,
        resource,
        exposes.clone(),
        classes.clone()
    ));
    let taken = || {
        let scope = &exposes.0[0];
        let noted = std::pin::pin!(scope.wakes.taken())
            .next()
            .now_or_never()
            .flatten();
        let of_kind = std::pin::pin!(classes.taken())
            .next()
            .now_or_never()
            .flatten();
        let noted = noted.unwrap_or_default();
        let names = noted.some.into_iter().map(|(_, name)| name);
        let all = noted.all.then(|| "all".to_owned());
        (all.into_iter().chain(names).collect(), of_kind.is_some())
    };
    for _ in 1..count {
        events.next().await;
    }
    taken();
    events.next().await;
    taken()
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().copied().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_class_wakes_those_that_name_it() {
    let (woken, classes) = woken(vec![], Event::Apply(plain(1))).await;
    assert_eq!((woken, classes), (names(&["named"]), false));
}

#[tokio::test]
async fn a_default_wakes_those_without_a_class_and_the_other_classes() {
    let expected = (names(&["named", "unset"]), true);
    assert_eq!(woken(vec![], Event::Apply(default(1))).await, expected);
    let applied = || vec![Event::Apply(plain(1))];
    assert_eq!(woken(applied(), Event::Apply(default(1))).await, expected);
    let applied = || vec![Event::Apply(default(1))];
    assert_eq!(woken(applied(), Event::Apply(plain(1))).await, expected);
    assert_eq!(woken(applied(), Event::Delete(default(1))).await, expected);
}

#[tokio::test]
async fn a_status_wakes_nobody() {
    let (woken, classes) = woken(vec![Event::Apply(default(1))], Event::Apply(default(1))).await;
    assert_eq!((woken, classes), (names(&[]), false));
}

#[tokio::test]
async fn a_change_of_the_spec_wakes() {
    let (woken, _) = woken(vec![Event::Apply(plain(1))], Event::Apply(plain(2))).await;
    assert_eq!(woken, names(&["named"]));
}

#[tokio::test]
async fn everybody_looks_after_a_list() {
    let (woken, classes) = woken(vec![Event::Init], Event::InitDone).await;
    assert_eq!((woken, classes), (names(&["all"]), true));
}

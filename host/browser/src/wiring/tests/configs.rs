use std::sync::Arc;

use futures::{FutureExt, StreamExt, stream};
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::Event;
use podloom_api::{SelenosisApi, SelenosisKind};
use podloom_engine::readable::Readable;
use serde_json::json;

use super::super::{Affected, changes};
use super::super::{Configs, all_in, cached};

fn config(name: &str, generation: i64, status: &str) -> Configs {
    let object = json!({
        "metadata": { "name": name, "namespace": "team", "uid": name, "generation": generation },
        "spec": { "browsers": {} },
        "status": { "version": status },
    });
    Readable(Ok(serde_json::from_value(object).unwrap()))
}

/// How many BrowserConfigs of a hundred an event wakes beside the one that it is about.
#[track_caller]
fn check(event: Event<Configs>, expected: usize) {
    let resource = Arc::new(SelenosisApi::Seed.resource(SelenosisKind::BrowserConfig));
    let mut writer = Writer::new(resource.clone());
    let store = writer.as_reader();
    writer.apply_watcher_event(&Event::Init);
    for number in 0..100 {
        writer.apply_watcher_event(&Event::InitApply(config(&number.to_string(), 1, "a")));
    }
    writer.apply_watcher_event(&Event::InitDone);
    let (noted, mut affected) = changes();
    let events = cached(
        stream::iter([Ok(event)]),
        writer,
        resource.clone(),
        vec![noted],
    );
    assert_eq!(events.count().now_or_never(), Some(1));
    let change = affected.next().now_or_never().flatten();
    let woken = change.map_or(0, |affected| all_in(&store, &affected, &resource).len());
    assert_eq!(woken, expected);
}

#[test]
fn a_status_wakes_no_neighbour() {
    check(Event::Apply(config("7", 1, "b")), 0);
}

#[test]
fn a_spec_wakes_all_neighbours() {
    check(Event::Apply(config("7", 2, "a")), 100);
}

#[test]
fn one_that_comes_or_goes_wakes_all_neighbours() {
    check(Event::Apply(config("new", 1, "a")), 101);
    check(Event::Delete(config("7", 1, "a")), 99);
}

#[test]
fn only_those_of_its_namespace_are_neighbours() {
    let affected = Affected::Namespace("team".to_owned());
    assert!(affected.includes(Some("team")));
    assert!(!affected.includes(Some("another")));
    assert!(Affected::All.includes(Some("another")));
}

#[test]
fn a_list_wakes_all() {
    check(Event::InitDone, 0);
}

use std::sync::Arc;

use kube::Resource;
use kube::core::ObjectMeta;
use kube::runtime::watcher::Event;
use podloom_api::{BrowserConfigObject, SelenosisApi, SelenosisKind};
use podloom_engine::cache::{Cache, Watch};
use podloom_engine::readable::Readable;
use podloom_engine::wakes::{Noted, Wakes};
use serde_json::json;

use super::{BrowserConfigKind, note_changes, remember};
use crate::memory::Memory;
use crate::pod::SeenPod;

type Config = Readable<BrowserConfigObject>;

fn config(name: &str, generation: i64, status: &str) -> Config {
    config_in("team", name, generation, status)
}

fn config_in(namespace: &str, name: &str, generation: i64, status: &str) -> Config {
    let object = json!({
        "metadata": { "name": name, "namespace": namespace, "uid": name, "generation": generation },
        "spec": { "browsers": {} },
        "status": { "version": status },
    });
    Readable(Ok(serde_json::from_value(object).unwrap()))
}

/// How many BrowserConfigs these events wake beside the one that they are about, where there is one of another namespace and a hundred of
/// one; and where Browsers may have waited for it.
fn woken(events: &[Event<Config>]) -> (usize, Noted) {
    let resource = Arc::new(SelenosisApi::Seed.resource(SelenosisKind::BrowserConfig));
    let watch = Watch::of_kind::<BrowserConfigKind>("BrowserConfigs", &resource);
    let configs = (0..100).map(|number| config(&number.to_string(), 1, "a"));
    let configs = Cache::of(watch, configs.chain([config_in("another", "x", 1, "a")]));
    let changed = Wakes::default();
    note_changes(&configs, changed.clone());
    for event in events {
        configs.show(None, event);
    }
    (configs.noted().len(), changed.take())
}

#[track_caller]
fn check(event: Event<Config>, expected: usize) {
    let (woken, changed) = woken(&[event]);
    assert_eq!(woken, expected);
    let namespaces: Vec<String> = changed.namespaces.into_iter().collect();
    assert_eq!(namespaces.contains(&"team".to_owned()), expected > 0);
    assert!(!changed.all && namespaces.len() < 2);
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
    let (woken, changed) = woken(&[Event::Apply(config_in("another", "x", 2, "a"))]);
    assert_eq!(woken, 1);
    assert!(changed.includes(config_in("another", "y", 1, "a").meta()));
    assert!(!changed.includes(config("7", 1, "a").meta()));
}

#[test]
fn a_list_wakes_all() {
    let listed = ["1", "2"].map(|name| Event::InitApply(config(name, 1, "a")));
    let list = [[Event::Init].as_slice(), &listed, &[Event::InitDone]].concat();
    let (woken, changed) = woken(&list);
    assert_eq!(woken, 2);
    assert!(changed.all);
}

/// How its pod went decides what is said of a Browser, and the cache no longer has it then. A list may come from an API server that lags,
/// and be older than the pod: only an event shows that it went.
#[test]
fn how_a_pod_went_is_remembered_also_from_a_list() {
    let pod = |owner: &str| -> SeenPod {
        let owners = json!([{ "apiVersion": "selenosis.io/v1", "kind": "Browser", "name": owner, "uid": owner, "controller": true }]);
        let metadata =
            json!({ "name": owner, "namespace": "team", "uid": owner, "ownerReferences": owners });
        let conditions = json!([{ "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI" }]);
        let status = json!({ "conditions": conditions });
        serde_json::from_value(json!({ "metadata": metadata, "status": status })).unwrap()
    };
    let pods = Cache::of(Watch::of("Pod", ""), ["stays", "goes"].map(pod));
    let memory = Memory::default();
    remember(&pods, memory.clone());
    for event in [Event::Init, Event::InitApply(pod("stays")), Event::InitDone] {
        pods.show(None, &event);
    }
    let went = |uid: &str| {
        let browser = ObjectMeta {
            uid: Some(uid.to_owned()),
            ..ObjectMeta::default()
        };
        (
            memory.disruption(&browser).is_some(),
            memory.saw_go(&browser, uid),
        )
    };
    assert_eq!(
        [went("goes"), went("stays")],
        [(true, false), (false, false)]
    );
    pods.show(None, &Event::Delete(pod("stays")));
    assert_eq!(went("stays"), (true, true));
}

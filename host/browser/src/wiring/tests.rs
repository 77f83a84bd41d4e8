use std::sync::Arc;

use kube::Resource;
use kube::core::ObjectMeta;
use kube::runtime::watcher::Event;
use podloom_api::{BrowserConfigObject, SelenosisApi, SelenosisKind};
use podloom_engine::cache::{Cache, Watch};
use podloom_engine::readable::Readable;
use podloom_engine::testing::OwnWrites;
use podloom_engine::wakes::{Noted, Wakes};
use serde_json::json;

use super::{BrowserConfigKind, Browsers, note_changes, remember};
use crate::kind::BrowserKind;
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
/// and a pod that loses our label leaves the watch: only one that was marked before is gone with its event.
#[test]
fn how_a_pod_went_is_remembered_of_browsers_that_exist() {
    let names = ["missed", "unlabelled", "went", "stranger"];
    let metadata = |name: &str| json!({ "name": name, "namespace": "team", "uid": name });
    let pod = |name: &str| -> SeenPod {
        let mut metadata = metadata(name);
        metadata["ownerReferences"] = json!([
            { "apiVersion": "selenosis.io/v1", "kind": "Browser", "name": name, "uid": name, "controller": true },
        ]);
        metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        metadata["deletionGracePeriodSeconds"] = match name {
            "unlabelled" => json!(30),
            _ => json!(0),
        };
        let conditions = json!([{ "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI" }]);
        let status = json!({ "conditions": conditions });
        serde_json::from_value(json!({ "metadata": metadata, "status": status })).unwrap()
    };
    let spec = json!({ "browserName": "chrome", "browserVersion": "1" });
    let browser = |name: &str| {
        let mut metadata = metadata(name);
        if name == "stranger" {
            metadata["uid"] = json!("another");
        }
        Readable(Ok(serde_json::from_value(
            json!({ "metadata": metadata, "spec": spec }),
        )
        .unwrap()))
    };
    let resource = Arc::new(SelenosisApi::Seed.resource(SelenosisKind::Browser));
    let watch = Watch::of_kind::<BrowserKind>("Browsers", &resource);
    let browsers: Browsers = Cache::of(watch, names.map(browser));
    let pods = Cache::of(Watch::of("Pod", ""), names.map(pod));
    let memory = Memory::default();
    remember(&pods, &browsers, memory.clone());
    pods.show(None, &Event::Init);
    for listed in &names[1..] {
        pods.show(None, &Event::InitApply(pod(listed)));
    }
    pods.show(None, &Event::InitDone);
    for went in &names[1..] {
        pods.show(None, &Event::Delete(pod(went)));
    }
    let known = names.map(|name| {
        let browser = ObjectMeta {
            uid: Some(name.to_owned()),
            ..ObjectMeta::default()
        };
        let is_disrupted = memory.disruption(&browser).is_some();
        (is_disrupted, memory.saw_go(&browser, name))
    });
    let expected = [(true, false), (true, false), (true, true), (false, false)];
    assert_eq!(known, expected);
}

/// Otherwise a BrowserConfig would make the next pod only when it looks again.
#[test]
fn a_pod_that_is_taken_wakes_the_browser_config_that_had_it() {
    let resource = Arc::new(SelenosisApi::Seed.resource(SelenosisKind::BrowserConfig));
    let watch = Watch::of_kind::<BrowserConfigKind>("BrowserConfigs", &resource);
    let configs: Cache<Config> = Cache::of(watch, [config("c", 1, "a")]);
    let pod = |kind: &str, owner: &str| -> SeenPod {
        let owner = json!({ "apiVersion": "selenosis.io/v1", "kind": kind, "name": owner, "uid": owner, "controller": true });
        let metadata =
            json!({ "name": "warm", "namespace": "team", "uid": "p", "ownerReferences": [owner] });
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    };
    let pods = Cache::of(Watch::of("Pod", "Pods"), [pod("BrowserConfig", "c")]);
    drop(
        OwnWrites::default()
            .wiring::<BrowserConfigKind>(&configs)
            .owns(&pods),
    );
    pods.show(None, &Event::Apply(pod("Browser", "b")));
    assert_eq!(configs.noted(), ["c"]);
    pods.show(None, &Event::Apply(pod("Browser", "b")));
    assert!(configs.noted().is_empty());
}

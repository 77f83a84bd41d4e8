use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use kube::core::ObjectMeta;
use kube::runtime::watcher::Event;
use podloom_api::{PortalExpose, PortalExposeObject};
use podloom_engine::cache::{Cache, Watch};
use podloom_engine::clock::Clock;
use podloom_engine::wakes::Wakes;
use serde_json::json;

use super::{Expose, Exposes, listen, wake_having, wake_referring};
use crate::kind::Tunnels;
use crate::kind::tests::cluster::{Chain, relays};
use crate::memory::Memory;
use crate::naming;
use crate::rivals::Rivals;
use crate::rolls::{Limits, Rolls};
use crate::world::Try;

/// A PortalExpose of a namespace, with this generation and phase.
fn expose(namespace: &str, name: &str, generation: i64, app: &str) -> Expose {
    serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": namespace, "uid": format!("{namespace}/{name}"), "generation": generation,
            "finalizers": ["portal.gosuda.org/cleanup-tunnel-deployment"],
        },
        "spec": {
            "app": { "name": app, "service": { "name": "web", "port": 80 } },
            "relay": { "targets": [{ "name": "one", "url": "wss://relay.example.com" }] },
        },
    }))
    .unwrap()
}

/// Two watch scopes, `a` and `b`; the second has a PortalExpose `rival` with the application `shop`.
fn scopes() -> (Exposes, Tunnels) {
    let watch = Watch::ours("", "", &Arc::new(PortalExpose::resource()));
    let exposes = Cache::unwatched(watch, ["a", "b"].map(|name| Some(name.to_owned())));
    let limits = Limits::new(1, Duration::from_mins(2), false);
    let tunnels = Tunnels {
        mutator: Arc::<Chain>::default(),
        rolls: Rolls::new(limits, Cache::of(Watch::of("Deployment", ""), [])),
        relays: relays(Clock::new()),
        memory: Memory::default(),
        rivals: Rivals::default(),
    };
    listen(&exposes, tunnels.clone());
    exposes.show(Some("b"), &Event::Apply(expose("b", "rival", 1, "shop")));
    (exposes, tunnels)
}

/// What is woken by the last of these events in the first scope.
fn woken(events: Vec<Event<Expose>>) -> Vec<String> {
    let (exposes, _) = scopes();
    for event in events {
        exposes.noted();
        exposes.show(Some("a"), &event);
    }
    exposes.noted()
}

fn applied(generation: i64, app: &str) -> Event<Expose> {
    Event::Apply(expose("a", "shop", generation, app))
}

#[tokio::test]
async fn one_with_the_same_hostname_is_woken_in_another_scope() {
    assert_eq!(woken(vec![applied(1, "shop")]), ["rival"]);
    assert_eq!(woken(vec![applied(1, "blog")]), [""; 0]);
}

/// It came later, so it takes the hostname from nobody.
#[tokio::test]
async fn one_that_loses_wakes_nobody() {
    let late = Event::Apply(expose("c", "shop", 1, "shop"));
    assert_eq!(woken(vec![late]), [""; 0]);
}

/// Else the first pass would believe that a hostname is free.
#[tokio::test]
async fn hostnames_are_known_before_the_cache_is_filled() {
    let (exposes, tunnels) = scopes();
    exposes.show(Some("a"), &Event::Init);
    exposes.show(Some("a"), &Event::InitApply(expose("a", "shop", 1, "shop")));
    assert!(exposes.all_in(Some("a")).is_empty());
    let late = expose("b", "rival", 1, "shop").0.unwrap();
    assert!(tunnels.rivals.conflict(&late).is_some());
    // It is not there after all: the list was interrupted, and the next one is without it.
    exposes.show(Some("a"), &Event::Init);
    exposes.show(Some("a"), &Event::InitDone);
    assert!(tunnels.rivals.conflict(&late).is_none());
    assert_eq!(tunnels.rivals.len(), 1);
}

#[tokio::test]
async fn a_hostname_that_becomes_free_wakes_those_that_want_it() {
    assert_eq!(
        woken(vec![applied(1, "shop"), applied(2, "blog")]),
        ["rival"]
    );
    let gone = Event::Delete(expose("a", "shop", 1, "shop"));
    assert_eq!(woken(vec![applied(1, "shop"), gone]), ["rival"]);
}

#[tokio::test]
async fn a_status_wakes_no_neighbour() {
    assert_eq!(woken(vec![applied(1, "shop"), applied(1, "shop")]), [""; 0]);
}

#[tokio::test]
async fn all_look_after_a_list() {
    assert_eq!(woken(vec![Event::Init, Event::InitDone]), ["rival"]);
}

/// It went while the watch was broken.
#[tokio::test]
async fn what_is_gone_after_a_list_is_forgotten() {
    let (exposes, tunnels) = scopes();
    let (memory, rivals) = (tunnels.memory, tunnels.rivals);
    memory.queued("a/shop", Try::Identity { generation: None });
    memory.queued("b/rival", Try::Identity { generation: None });
    for event in [applied(1, "blog"), Event::Init, Event::InitDone] {
        exposes.show(Some("a"), &event);
    }
    // The hostname of the other scope is still wanted.
    assert_eq!(rivals.len(), 1);
    assert_eq!(memory.waits("a/shop"), None);
    assert!(memory.waits("b/rival").is_some());
}

fn metadata(namespace: &str, name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(namespace.to_owned()),
        ..ObjectMeta::default()
    }
}

#[tokio::test]
async fn those_that_refer_to_an_object_are_of_its_namespace() {
    let (exposes, _) = scopes();
    exposes.noted();
    let refers = |expose: &PortalExposeObject, name: &str| expose.spec.app.service.name == name;
    wake_referring(&exposes, &metadata("c", "web"), refers);
    assert_eq!(exposes.noted(), [""; 0]);
    wake_referring(&exposes, &metadata("b", "web"), refers);
    assert_eq!(exposes.noted(), ["rival"]);
}

#[tokio::test]
async fn a_secret_wakes_the_one_whose_identity_it_has() {
    let (exposes, _) = scopes();
    exposes.noted();
    let wake = |name: &str| wake_having(&exposes, &metadata("b", name), naming::SECRET);
    wake("other-tunnel-identity");
    assert_eq!(exposes.noted(), [""; 0]);
    wake("rival-tunnel-identity");
    assert_eq!(exposes.noted(), ["rival"]);
}

/// Returns which of these are woken by a Deployment of this name, in namespace `a` and without any label or owner.
fn having(names: &[&str], deployment: &str) -> Vec<String> {
    let (exposes, _) = scopes();
    for name in names {
        exposes.show(Some("a"), &Event::Apply(expose("a", name, 1, "app")));
    }
    exposes.noted();
    wake_having(&exposes, &metadata("a", deployment), naming::DEPLOYMENT);
    exposes.noted()
}

#[tokio::test]
async fn a_deployment_without_labels_and_owners_wakes_the_one_of_its_name() {
    let long = "a".repeat(70);
    let all = ["shop", "shop-tunnel", long.as_str(), "web-0123abcd"];
    assert_eq!(having(&all, "shop-tunnel"), ["shop"]);
    assert_eq!(having(&all, "shop-tunnel-tunnel"), ["shop-tunnel"]);
    assert_eq!(
        having(&all, &naming::deployment_name(&long)),
        [long.as_str()]
    );
    assert_eq!(having(&all, "web-0123abcd-tunnel"), ["web-0123abcd"]);
    assert_eq!(having(&all, "blog-tunnel"), [""; 0]);
    assert_eq!(having(&all, "shop"), [""; 0]);
    // It is in the other scope's namespace.
    assert_eq!(having(&all, "rival-tunnel"), [""; 0]);
}

#[tokio::test]
async fn a_namespace_that_changes_wakes_those_in_it() {
    let (exposes, _) = scopes();
    exposes.show(Some("a"), &Event::Apply(expose("a", "shop", 1, "app")));
    exposes.noted();
    let changed = Wakes::default();
    let following = super::super::wake_in_namespaces(&changed, exposes.clone());
    changed.wake_in(Some("a"));
    assert!(following.now_or_never().is_none());
    assert_eq!(exposes.noted(), ["shop"]);
}

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::runtime::reflector::Store;
use kube::runtime::watcher::Event;
use kube::{Api, Client};
use podloom_scripted::{Requests, SILENCE, scripted, status};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::{Optional, WhenRefused, watch_optional};
use crate::metrics::EngineMetrics;

/// An API server that begins to answer with a list once it is allowed to, and its client.
fn server(allowed: &'static AtomicBool) -> (Client, Requests) {
    scripted(move |request, _| {
        assert!(request.starts_with("GET /api/v1/namespaces"), "{request}");
        match allowed.load(Ordering::Relaxed) {
            false => (403, status(403, "Forbidden", "no right")),
            true => (200, list()),
        }
    })
}

fn list() -> Value {
    let namespace = json!({ "metadata": { "name": "team-a", "resourceVersion": "1" } });
    json!({ "kind": "NamespaceList", "apiVersion": "v1", "metadata": { "resourceVersion": "1" }, "items": [namespace] })
}

fn namespaces() -> Optional<Namespace> {
    Optional {
        kind: "Namespace",
        dyntype: (),
        label: "",
        prune: |_| {},
        refused: WhenRefused::Forgotten,
        seen: Box::new(|_| {}),
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_read_is_asked_for_seldom_and_cached_once_it_may() {
    static ALLOWED: AtomicBool = AtomicBool::new(false);
    let (client, requests) = server(&ALLOWED);
    let metrics = EngineMetrics::collected(&mut Registry::default());
    let (cache, work) = watch_optional(&client, Api::all, namespaces(), &metrics);
    let work = tokio::spawn(work);
    // Whoever waits for the cache goes on without the objects.
    cache.store().wait_until_ready().await.unwrap();
    assert!(cache.may_be_hidden(), "the right may come in a moment");
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert!(cache.known().is_none());
    assert!(!cache.may_be_hidden(), "the right is not given");
    let asked = requests.made().len();
    // Soon at first, then every 30 to 60 seconds.
    assert!((14..=28).contains(&asked), "{asked} requests");
    ALLOWED.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(70)).await;
    assert_eq!(cache.known().map(Store::len), Some(1));
    work.abort();
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_read_any_more_is_forgotten_and_asked_for_seldom() {
    static ALLOWED: AtomicBool = AtomicBool::new(true);
    let (client, requests) = server(&ALLOWED);
    let metrics = EngineMetrics::collected(&mut Registry::default());
    let (cache, work) = watch_optional(&client, Api::all, namespaces(), &metrics);
    let work = tokio::spawn(work);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(cache.known().map(Store::len), Some(1));
    ALLOWED.store(false, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(cache.known().is_none());
    assert_eq!(cache.store.len(), 0);
    let before = requests.made().len();
    tokio::time::sleep(Duration::from_mins(10)).await;
    let asked = requests.made().len() - before;
    assert!((9..=21).contains(&asked), "{asked} requests");
    ALLOWED.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(70)).await;
    assert_eq!(cache.known().map(Store::len), Some(1));
    work.abort();
}

#[tokio::test(start_paused = true)]
async fn events_are_seen_after_the_cache_has_them() {
    static ALLOWED: AtomicBool = AtomicBool::new(true);
    let (client, requests) = server(&ALLOWED);
    let metrics = EngineMetrics::collected(&mut Registry::default());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let labelled = Optional {
        label: "example.com/team",
        seen: Box::new(move |event| noted.lock().unwrap().push(name(event))),
        ..namespaces()
    };
    let (cache, work) = watch_optional(&client, Api::all, labelled, &metrics);
    let work = tokio::spawn(work);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(cache.known().map(Store::len), Some(1));
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen, ["init", "one", "done"]);
    assert!(requests.made().len() > 1);
    work.abort();
}

fn name(event: &Event<Namespace>) -> &'static str {
    match event {
        Event::Init => "init",
        Event::InitDone => "done",
        _ => "one",
    }
}

#[tokio::test]
async fn a_cache_that_nothing_fills_is_empty_and_holds_nobody_up() {
    let (client, _) = scripted(|_, _| (SILENCE, Value::Null));
    let metrics = EngineMetrics::collected(&mut Registry::default());
    let (cache, mut work) = watch_optional(&client, Api::all, namespaces(), &metrics);
    assert!(work.as_mut().now_or_never().is_none());
    assert!(cache.known().is_none());
    drop(work);
    assert!(cache.known().is_none());
}

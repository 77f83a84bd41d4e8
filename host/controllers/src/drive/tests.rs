use std::sync::Arc;
use std::time::Duration;

use futures::channel::mpsc;
use futures::{FutureExt, StreamExt, future, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::Controller;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::Event;
use podloom_api::{BrowserObject, Kind, SelenosisApi, names};
use prometheus_client::metrics::gauge::Gauge;
use serde_json::json;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{Context, Driven, Next, Places, Queue, Reconcile, drive, telling_lists};
use crate::backoff::Backoff;
use crate::error::ReconcileError;
use crate::fixtures::{client, context};
use crate::readable::Readable;

/// How often lists are told while these events pass by, if somebody listens all the time.
#[track_caller]
fn check(events: Vec<Result<Event<Pod>, &'static str>>, told: usize) {
    let (listed, mut lists) = mpsc::channel(1);
    let mut passing = std::pin::pin!(telling_lists(stream::iter(events), listed));
    let mut heard = 0;
    while passing.next().now_or_never().flatten().is_some() {
        if lists.next().now_or_never().flatten().is_some() {
            heard += 1;
        }
    }
    assert_eq!(heard, told);
}

#[test]
fn a_list_is_told_at_its_end_and_each_time_anew() {
    let pod = Pod::default();
    let in_the_middle = vec![Ok(Event::Init), Ok(Event::InitApply(pod.clone()))];
    check(in_the_middle, 0);
    let without = vec![
        Ok(Event::Apply(pod.clone())),
        Ok(Event::Delete(pod)),
        Err("broken"),
    ];
    check(without, 0);
    let twice = vec![
        Ok(Event::Init),
        Ok(Event::InitDone),
        Err("broken"),
        Ok(Event::Init),
        Ok(Event::InitDone),
    ];
    check(twice, 2);
}

#[test]
fn lists_that_nobody_listens_to_hold_nobody_back() {
    let (listed, mut lists) = mpsc::channel(1);
    let events = (0..100).map(|_| Ok::<_, ()>(Event::<Pod>::InitDone));
    let passing = telling_lists(stream::iter(events), listed);
    assert_eq!(passing.count().now_or_never(), Some(100));
    assert!(lists.next().now_or_never().flatten().is_some());
}

struct NeverReached;

impl Reconcile for NeverReached {
    type Object = BrowserObject;

    const FINALIZER: &'static str = names::finalizer::BROWSER;
    const FIELD_MANAGER: &'static str = names::field_manager::BROWSER;

    async fn reconcile(&self, _: &Context, _: &BrowserObject) -> Result<Next, ReconcileError> {
        panic!("a pass was made though the caches are not filled");
    }
}

/// A stop while the first lists are on their way, as when the API server does not answer.
#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_caches_that_nobody_fills_any_more() {
    let resource = Arc::new(SelenosisApi::Seed.resource(Kind::Browser));
    let browser: BrowserObject = serde_json::from_value(json!({
        "metadata": { "name": "a", "namespace": "team" },
        "spec": { "browserName": "chrome", "browserVersion": "1" },
    }))
    .unwrap();
    let mut writer = Writer::new(resource.clone());
    let store = writer.as_reader();
    for event in [
        Event::Init,
        Event::InitApply(Readable(Ok(browser.clone()))),
        Event::InitDone,
    ] {
        writer.apply_watcher_event(&event);
    }
    let stop = CancellationToken::new();
    let wakes = stream::iter([Ok(Readable(Ok(browser)))]).chain(stream::pending());
    let controller = Controller::for_stream_with(wakes, store, resource.clone())
        .graceful_shutdown_on(stop.clone().cancelled_owned());
    let (client, _) = client(500, json!({}));
    let driven = Driven {
        name: "browser",
        resource,
        ctx: Arc::new(context(client)),
        controller: NeverReached,
        caches: future::pending().boxed().shared(),
        backoff: Backoff::new(),
        queue: Queue::new(Gauge::default()),
        places: Places::new(usize::MAX).0,
    };
    let mut driving = std::pin::pin!(drive(controller, driven, stop.clone()));
    let begun = timeout(Duration::from_secs(1), driving.as_mut()).await;
    assert!(begun.is_err(), "it ended by itself");
    stop.cancel();
    let ended = timeout(Duration::from_secs(1), driving).await;
    assert!(ended.is_ok(), "the stop waits for the caches");
}

/// How often the API server is asked about an object that our types cannot hold.
async fn check_unreadable(metadata: &serde_json::Value, expected: &[&str]) {
    let object: Readable<BrowserObject> = serde_json::from_value(json!({
        "apiVersion": "selenosis.io/v1", "kind": "Browser", "metadata": metadata, "spec": "no spec",
    }))
    .unwrap();
    assert!(object.0.is_err());
    let (client, requests) = client(200, json!({}));
    let driven = Driven {
        name: "browser",
        resource: Arc::new(SelenosisApi::Seed.resource(Kind::Browser)),
        ctx: Arc::new(context(client)),
        controller: NeverReached,
        caches: future::ready(()).boxed().shared(),
        backoff: Backoff::new(),
        queue: Queue::new(Gauge::default()),
        places: Places::new(usize::MAX).0,
    };
    driven.pass(&object).await;
    assert_eq!(requests.made(), expected);
}

#[tokio::test]
async fn an_unreadable_object_is_left_alone_and_not_held() {
    let name = json!({ "name": "a", "namespace": "team", "uid": "u" });
    check_unreadable(&name, &[]).await;
    let mut deleted = name;
    deleted["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    check_unreadable(&deleted, &[]).await;
    deleted["finalizers"] = json!(["example.com/billing", "browserpod.selenosis.io/finalizer"]);
    check_unreadable(
        &deleted,
        &["PATCH /apis/selenosis.io/v1/namespaces/team/browsers/a"],
    )
    .await;
}

mod passes;

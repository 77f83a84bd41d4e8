use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher::Event;
use kube::{Api, ResourceExt};
use podloom_scripted::{scripted, status};
use serde_json::{Value, json};

use super::listed_by_stream;
use crate::watch::watch_config;

fn event(what: &str, name: &str, version: &str) -> String {
    let metadata = json!({ "name": name, "namespace": "a", "resourceVersion": version });
    json!({ "type": what, "object": { "kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata } }).to_string()
}

fn end(version: &str) -> String {
    let annotations = json!({ "k8s.io/initial-events-end": "true" });
    let metadata = json!({ "resourceVersion": version, "annotations": annotations });
    json!({ "type": "BOOKMARK", "object": { "kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata } }).to_string()
}

fn body(events: &[String]) -> (u16, Value) {
    (200, Value::String(events.join("\n")))
}

/// The answers to the requests in their order; the last one is repeated.
async fn shown(answers: Vec<(u16, Value)>, events: usize) -> (Vec<String>, usize) {
    let asked = AtomicUsize::new(0);
    let (client, requests) = scripted(move |_, _| {
        let number = asked.fetch_add(1, Ordering::Relaxed);
        answers[number.min(answers.len() - 1)].clone()
    });
    let api: Api<ConfigMap> = Api::all(client);
    let watched = listed_by_stream(api, watch_config());
    let shown = watched.take(events).map(|event| match event {
        Ok(Event::Init) => "init".to_owned(),
        Ok(Event::InitApply(it)) => format!("listed {}", at(&it)),
        Ok(Event::InitDone) => "done".to_owned(),
        Ok(Event::Apply(it)) => format!("changed {}", at(&it)),
        Ok(Event::Delete(it)) => format!("deleted {}", at(&it)),
        Err(error) => format!("{error}"),
    });
    let shown = shown.collect().await;
    (shown, requests.made().len())
}

fn at(object: &ConfigMap) -> String {
    let version = object.resource_version().unwrap();
    format!("{}@{version}", object.name_any())
}

#[tokio::test(start_paused = true)]
async fn one_request_lists_and_watches_and_no_deletion_is_lost_meanwhile() {
    let answer = body(&[
        event("ADDED", "a", "1"),
        event("ADDED", "b", "2"),
        event("DELETED", "a", "3"),
        event("DELETED", "b", "4"),
        event("ADDED", "b", "5"),
        end("6"),
        event("MODIFIED", "b", "7"),
        event("DELETED", "b", "8"),
    ]);
    let (shown, requests) = shown(vec![answer], 8).await;
    let expected = [
        "init",
        "listed a@1",
        "listed b@2",
        "listed b@5",
        "done",
        "deleted a@3",
        "changed b@7",
        "deleted b@8",
    ];
    assert_eq!((shown, requests), (expected.map(str::to_owned).to_vec(), 1));
}

#[tokio::test(start_paused = true)]
async fn without_lists_by_stream_or_the_end_of_one_there_are_pages() {
    let metadata = json!({ "name": "a", "namespace": "a", "resourceVersion": "1" });
    let page =
        json!({ "metadata": { "resourceVersion": "2" }, "items": [{ "metadata": metadata }] });
    let refused = (
        422,
        status(422, "Invalid", "sendInitialEvents is forbidden"),
    );
    let unread = (403, status(403, "Forbidden", "cannot watch"));
    let listed = ["init", "listed a@1", "done"].map(str::to_owned).to_vec();
    for answer in [refused, unread] {
        let (shown, requests) = shown(vec![answer, (200, page.clone())], 3).await;
        assert_eq!((shown, requests), (listed.clone(), 2));
    }
    let broken = body(&[event("ADDED", "b", "1")]);
    let ended = shown(vec![broken, (200, page.clone())], 5).await.0;
    assert_eq!(ended[..2], ["init", "listed b@1"]);
    assert_eq!(ended[2..], listed);
    let lags =
        json!({ "type": "ERROR", "object": status(504, "Timeout", "Too large resource version") });
    let lagging = shown(vec![body(&[lags.to_string()]), (200, page.clone())], 5)
        .await
        .0;
    assert_eq!(lagging[0], "init");
    assert!(lagging[1].contains("Too large"), "{lagging:?}");
    assert_eq!(lagging[2..], listed);
    // Nobody could go on from such an end.
    let nowhere = shown(vec![body(&[end("")]), (200, page)], 4).await.0;
    assert_eq!(nowhere[0], "init");
    assert_eq!(nowhere[1..], listed);
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_where_it_ended_and_lists_again_if_that_is_too_old() {
    let first = body(&[event("ADDED", "a", "1"), end("2")]);
    let next = body(&[event("MODIFIED", "a", "3")]);
    let gone = (410, status(410, "Expired", "too old resource version"));
    let again = body(&[event("ADDED", "a", "4"), end("5")]);
    let (shown, requests) = shown(vec![first, next, gone, again], 8).await;
    assert_eq!(shown[..4], ["init", "listed a@1", "done", "changed a@3"]);
    assert!(shown[4].contains("too old"), "{shown:?}");
    assert_eq!(shown[5..], ["init", "listed a@4", "done"]);
    assert_eq!(requests, 4);
}

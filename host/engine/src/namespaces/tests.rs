use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use kube::core::{ObjectMeta, PartialObjectMetaExt};
use podloom_mutation::NamespaceMetadata;
use podloom_scripted::{failure, scripted};
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::time::sleep;

use super::{Namespaces, UnreadNamespaces, are_refused, metadata, missing};
use crate::cache::Cache;
use crate::metrics::EngineMetrics;

#[test]
fn a_watched_namespace_that_does_not_exist_is_missing() {
    let known = ObjectMeta {
        name: Some("team-a".to_owned()),
        ..ObjectMeta::default()
    };
    let cache = Cache::of(metadata(), [known.into_response_partial()]);
    let names = ["team-a", "team-b"];
    assert_eq!(missing(&cache, names).collect::<Vec<_>>(), ["team-b"]);
}

/// The namespaces of an API server that answers with this code, which can be changed, and where `team-a` has this number as a label.
fn watched(unread: UnreadNamespaces, code: u16) -> (Namespaces, Arc<AtomicU16>, Arc<AtomicU16>) {
    let (code, label) = (Arc::new(AtomicU16::new(code)), Arc::new(AtomicU16::new(1)));
    let (answered, labelled) = (Arc::clone(&code), Arc::clone(&label));
    let (client, _) = scripted(move |_, _| match answered.load(Ordering::Relaxed) {
        200 => {
            let number = labelled.load(Ordering::Relaxed).to_string();
            let team =
                json!({ "name": "team-a", "resourceVersion": "1", "labels": { "number": number } });
            let list =
                json!({ "metadata": { "resourceVersion": "1" }, "items": [{ "metadata": team }] });
            (200, list)
        }
        code => (code, failure(code)),
    });
    let metrics = EngineMetrics::collected(&mut Registry::default());
    let namespaces = Namespaces::watch(&client, unread, &metrics);
    tokio::spawn(namespaces.fill());
    (namespaces, code, label)
}

fn number(namespaces: &Namespaces) -> Option<String> {
    namespaces.get("team-a")?.labels.get("number").cloned()
}

#[tokio::test(start_paused = true)]
async fn what_was_known_stays_in_use_whatever_the_api_server_answers() {
    let (namespaces, code, label) = watched(UnreadNamespaces::Refused, 200);
    assert_eq!(namespaces.get("team-a"), None, "not asked yet");
    sleep(Duration::from_secs(1)).await;
    for refusal in [403, 404, 429, 500] {
        code.store(refusal, Ordering::Relaxed);
        for _ in 0..600 {
            assert!(number(&namespaces).is_some(), "{refusal}");
            assert_eq!(namespaces.get("team-b"), None, "{refusal}");
            sleep(Duration::from_secs(1)).await;
        }
        let changed = label.fetch_add(1, Ordering::Relaxed) + 1;
        code.store(200, Ordering::Relaxed);
        sleep(Duration::from_secs(70)).await;
        // Only after a refusal there is a new list; otherwise the watch goes on, and this server has no events.
        if matches!(refusal, 403 | 404) {
            assert_eq!(number(&namespaces), Some(changed.to_string()), "{refusal}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_right_that_is_missing_for_a_moment_at_the_start_is_soon_used() {
    let (namespaces, code, _) = watched(UnreadNamespaces::Refused, 403);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(namespaces.get("team-a"), None);
    code.store(200, Ordering::Relaxed);
    sleep(Duration::from_secs(15)).await;
    assert!(number(&namespaces).is_some());
}

#[tokio::test(start_paused = true)]
async fn namespaces_that_were_never_readable_have_no_labels_only_if_that_is_allowed() {
    let (namespaces, code, _) = watched(UnreadNamespaces::Allowed, 403);
    assert_eq!(namespaces.get("team-b"), None, "not asked yet");
    sleep(Duration::from_mins(10)).await;
    let about = NamespaceMetadata::nothing_but("team-b");
    assert_eq!(about.labels["kubernetes.io/metadata.name"], "team-b");
    assert_eq!(namespaces.get("team-b"), Some(about));
    code.store(200, Ordering::Relaxed);
    sleep(Duration::from_mins(2)).await;
    assert!(number(&namespaces).is_some());
    assert_eq!(
        namespaces.get("team-b"),
        None,
        "from now on it would be known"
    );
}

#[tokio::test]
async fn only_an_answer_is_a_refusal() {
    for (code, expected) in [(200, false), (403, true), (429, false), (500, false)] {
        let (client, _) = podloom_scripted::client(code, failure(code));
        assert_eq!(are_refused(&client).await, expected, "{code}");
    }
}

mod record;

use std::sync::{Arc, Mutex};

use futures::future;
use http::{Request, Response};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::client::Body;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use super::{APPENDED_MAX, Events, LANES, NOTE_MAX, Notice, QUEUE, SendMetrics, appended, cut};

#[test]
fn a_long_note_is_cut_between_characters() {
    assert_eq!(cut("short".to_owned()), "short");
    for start in ["", "x"] {
        let note = cut(format!("{start}{}", "é".repeat(NOTE_MAX)));
        assert!(note.len() <= NOTE_MAX && note.ends_with("é…"), "{note}");
    }
}

#[test]
fn sentences_that_a_long_note_has_no_room_for_are_counted() {
    let reasons = vec!["hostPID must not be true: remove it"; 40].join("; ");
    let note = cut(format!("MutationDenied: {reasons}"));
    assert!(note.len() <= NOTE_MAX, "{}", note.len());
    let shown = note.matches("; ").count();
    assert!(
        note.ends_with(&format!("… and {} more", 39 - shown)),
        "{note}"
    );
}

fn appended_to(note: &str, sentences: &[&str]) -> String {
    let sentences: Vec<String> = sentences.iter().map(|&text| text.to_owned()).collect();
    appended(note.to_owned(), &sentences)
}

#[test]
fn sentences_follow_the_note() {
    assert_eq!(appended_to("created pod a", &[]), "created pod a");
    let note = appended_to("created pod a", &["first: none", "second: one"]);
    assert_eq!(note, "created pod a; first: none; second: one");
}

#[test]
fn long_sentences_are_cut_and_the_rest_is_counted() {
    let long = "é".repeat(300);
    let note = appended_to("created pod a", &["short", &long, &long, &long]);
    assert!(note.len() <= APPENDED_MAX, "{}", note.len());
    assert!(note.starts_with("created pod a; short; éé"), "{note}");
    assert!(note.ends_with("é… and 2 more"), "{note}");
}

/// An API server that records each Event as `name reason`, and does not answer those about objects whose names begin with `stuck`.
fn client() -> (Client, Arc<Mutex<Vec<String>>>) {
    let received = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&received);
    let service = service_fn(move |request: Request<Body>| {
        let noted = Arc::clone(&noted);
        async move {
            let body = request.into_body().collect_bytes().await?;
            let event: Value = serde_json::from_slice(&body)?;
            let name = event["regarding"]["name"].as_str().unwrap_or_default();
            let reason = event["reason"].as_str().unwrap_or_default();
            noted.lock().unwrap().push(format!("{name} {reason}"));
            if name.starts_with("stuck") {
                future::pending::<()>().await;
            }
            Ok::<_, BoxError>(Response::new(Body::from(body.to_vec())))
        }
    });
    (Client::new(service, "default"), received)
}

fn about(name: impl Into<String>) -> ObjectReference {
    ObjectReference {
        name: Some(name.into()),
        namespace: Some("team".to_owned()),
        ..ObjectReference::default()
    }
}

/// Polls the work as far as it gets without time passing.
async fn work(work: impl Future<Output = ()>) {
    let mut work = std::pin::pin!(work);
    for _ in 0..1000 {
        let _ended = futures::poll!(&mut work);
        tokio::task::yield_now().await;
    }
}

fn metrics() -> (SendMetrics, Registry) {
    let mut registry = Registry::default();
    (super::metrics(&mut registry), registry)
}

fn count(registry: &Registry, outcome: &str) -> String {
    let mut text = String::new();
    encode(&mut text, registry).unwrap();
    let start = format!("events_total{{outcome=\"{outcome}\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&start));
    line.unwrap_or_default().to_owned()
}

#[tokio::test(start_paused = true)]
async fn several_events_are_sent_at_once() {
    let (client, received) = client();
    let (metrics, _) = metrics();
    let (events, sending) = Events::new(&client, None, "Test", metrics.clone());
    for number in 0..100 {
        events.send(about(format!("stuck-{number}")), Notice::normal("Done", ""));
    }
    work(sending).await;
    assert_eq!(received.lock().unwrap().len(), LANES);
}

#[tokio::test(start_paused = true)]
async fn events_about_one_object_keep_their_order() {
    let (client, received) = client();
    let (metrics, registry) = metrics();
    let (events, sending) = Events::new(&client, None, "Test", metrics.clone());
    for reason in ["First", "Second", "Third"] {
        for number in 0..20 {
            events.send(about(format!("a-{number}")), Notice::normal(reason, ""));
        }
    }
    work(sending).await;
    for number in 0..20 {
        let start = format!("a-{number} ");
        let received = received.lock().unwrap();
        let of_one: Vec<&str> = received
            .iter()
            .filter_map(|line| line.strip_prefix(&start))
            .collect();
        assert_eq!(of_one, ["First", "Second", "Third"]);
    }
    assert_eq!(count(&registry, "sent"), "60");
    assert_eq!(count(&registry, "dropped"), "0");
}

#[tokio::test]
async fn what_does_not_fit_is_dropped_and_counted() {
    let (client, _) = client();
    let (metrics, registry) = metrics();
    let (events, _not_working) = Events::new(&client, None, "Test", metrics.clone());
    for _ in 0..QUEUE + 3 {
        events.send(about("a"), Notice::normal("Done", ""));
    }
    assert_eq!(count(&registry, "dropped"), "3");
}

/// A process that loses the Lease drops its work, and the Events that are not sent yet.
#[tokio::test(start_paused = true)]
async fn what_is_left_when_the_work_ends_is_dropped_and_counted() {
    let (client, _) = client();
    let (metrics, registry) = metrics();
    let (events, sending) = Events::new(&client, None, "Test", metrics.clone());
    for _ in 0..3 {
        events.send(about("stuck"), Notice::normal("Done", ""));
    }
    work(sending).await;
    assert_eq!(count(&registry, "sent"), "0");
    // One of them was being sent.
    assert_eq!(count(&registry, "dropped"), "3");
}

/// The method of each request, the name of its Event, and how often this was counted.
type Requests = Arc<Mutex<Vec<(String, String, Value)>>>;

/// An API server that keeps Events; it has lost those whose names begin with `lost`.
fn keeper() -> (Client, Requests) {
    let received = Requests::default();
    let noted = Arc::clone(&received);
    let service = service_fn(move |request: Request<Body>| {
        let noted = Arc::clone(&noted);
        async move {
            let (method, path) = (
                request.method().to_string(),
                request.uri().path().to_owned(),
            );
            let body = request.into_body().collect_bytes().await?;
            let event: Value = serde_json::from_slice(&body)?;
            let last = path.rsplit('/').next().unwrap_or_default();
            let name = event["metadata"]["name"]
                .as_str()
                .unwrap_or(last)
                .to_owned();
            let is_lost = method == "PATCH" && name.starts_with("lost");
            noted
                .lock()
                .unwrap()
                .push((method, name, event["series"]["count"].clone()));
            let status =
                json!({ "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404 });
            let (code, answer) = if is_lost { (404, status) } else { (200, event) };
            let answer = Response::builder()
                .status(code)
                .body(Body::from(answer.to_string().into_bytes()));
            Ok::<_, BoxError>(answer.unwrap())
        }
    });
    (Client::new(service, "default"), received)
}

async fn requests(name: &str, notices: &[Notice]) -> Vec<(String, String, Value)> {
    let (client, received) = keeper();
    let (metrics, _) = metrics();
    let (events, sending) = Events::new(&client, None, "Test", metrics);
    for notice in notices {
        events.send(about(name), notice.clone());
    }
    work(sending).await;
    let received = received.lock().unwrap();
    received.clone()
}

#[tokio::test(start_paused = true)]
async fn a_repeated_warning_is_counted_in_its_first_event() {
    let (first, other) = (
        Notice::warning("Refused", "a"),
        Notice::warning("Other", "a"),
    );
    let sent = requests("web", &[first.clone(), first.clone(), other, first.clone()]).await;
    let methods: Vec<&str> = sent.iter().map(|(method, ..)| method.as_str()).collect();
    assert_eq!(methods, ["POST", "PATCH", "POST", "PATCH"]);
    assert_eq!((&sent[1].1, &sent[1].2), (&sent[0].1, &json!(2)));
    assert_eq!((&sent[3].1, &sent[3].2), (&sent[0].1, &json!(3)));
    // An Event that is gone is made again, and one that is no warning never repeats.
    let lost = requests("lost", &[first.clone(), first]).await;
    let methods: Vec<&str> = lost.iter().map(|(method, ..)| method.as_str()).collect();
    assert_eq!(methods, ["POST", "PATCH", "POST"]);
    let done = Notice::normal("Done", "");
    assert!(
        requests("web", &[done.clone(), done])
            .await
            .iter()
            .all(|(method, ..)| method == "POST")
    );
}

/// The API server refuses longer names, and kube's recorder made them.
#[tokio::test(start_paused = true)]
async fn an_object_with_the_longest_name_gets_events() {
    let name = "a".repeat(253);
    let sent = requests(&name, &[Notice::normal("Done", "")]).await;
    let (_, event, _) = &sent[0];
    assert!(
        event.len() <= 253 && event.starts_with(&name[..236]),
        "{event}"
    );
}

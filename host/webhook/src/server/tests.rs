mod deadline;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::ConnectInfo;
use axum::http::{Request, StatusCode};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use podloom_cleaner::{CleanerSettings, CleanerValidator};
use podloom_controllers::AdmissionCaches;
use podloom_engine::blocking::BlockingThreads;
use podloom_mutation::{
    MutatedPod, NamespaceMetadata, PodMutator, PodRejection, PodRequest, RejectedPod,
};
use podloom_turns::{Limits, Lines};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::{Webhook, router};
use crate::PeerTurns;
use crate::metrics::WebhookMetrics;
use crate::mutate::{Namespaces, PodWebhook};
use crate::review::Tenant;
use crate::validate::{ObjectWebhook, ROWS};
use crate::workloads::{WorkloadMode, WorkloadWebhook};

mod fair;

/// A chain and a cluster that do nothing.
struct Nothing;

impl PodMutator for Nothing {
    fn mutate(&self, pod: Value, _: PodRequest) -> BoxFuture<'_, Result<MutatedPod, RejectedPod>> {
        async move { Ok(MutatedPod::untouched(pod)) }.boxed()
    }

    fn chain(&self) -> Option<String> {
        None
    }
}

impl Namespaces for Nothing {
    fn of<'a>(&'a self, _: &'a Tenant, _: Instant) -> BoxFuture<'a, Option<NamespaceMetadata>> {
        async { Some(NamespaceMetadata::default()) }.boxed()
    }
}

/// A chain that is not loaded.
struct Unloaded;

impl PodMutator for Unloaded {
    fn mutate(&self, _: Value, _: PodRequest) -> BoxFuture<'_, Result<MutatedPod, RejectedPod>> {
        let rejection = PodRejection::Broken("no plugin chain is loaded".to_owned());
        async move { Err(rejection.into()) }.boxed()
    }

    fn chain(&self) -> Option<String> {
        None
    }
}

fn turns() -> PeerTurns {
    PeerTurns::new(Limits::for_each(2, 1024))
}

fn endpoints() -> (Router, Registry) {
    endpoints_with(Arc::new(Nothing))
}

fn endpoints_with(mutator: Arc<dyn PodMutator>) -> (Router, Registry) {
    let mut registry = Registry::default();
    let webhook = Webhook {
        pods: PodWebhook {
            mutator,
            namespaces: Arc::new(Nothing),
            owners: crate::owners::of_tests(),
            trusted: Vec::new(),
            turns: turns(),
            lines: Lines::default(),
        },
        workloads: WorkloadWebhook {
            mutator: Arc::new(Nothing),
            namespaces: Arc::new(Nothing),
            templates: Arc::new(|_, _, _| Vec::new()),
            mode: WorkloadMode::Warn,
            tries: turns(),
            turns: turns(),
        },
        objects: ObjectWebhook {
            mutator: Arc::new(Nothing),
            namespaces: Arc::new(Nothing),
            caches: AdmissionCaches::of([], [], []),
            blocking: BlockingThreads::new(),
            checks: turns(),
            tries: turns(),
            turns: turns(),
            cleaners: CleanerValidator::new(CleanerSettings::default(), 1),
        },
        metrics: WebhookMetrics::register(&mut registry),
    };
    (router(webhook), registry)
}

async fn send(router: &Router, request: Request<Body>) -> (StatusCode, String) {
    let (status, _, text) = send_all(router, request).await;
    (status, text)
}

/// Like [`send`], with whether the client is asked to try again.
async fn send_all(router: &Router, request: Request<Body>) -> (StatusCode, bool, String) {
    let response = router
        .clone()
        .oneshot(request)
        .await
        .expect("it cannot fail");
    let (status, asks_again) = (
        response.status(),
        response.headers().contains_key("retry-after"),
    );
    let body = to_bytes(response.into_body(), usize::MAX)
        .await
        .expect("a body");
    let text = String::from_utf8(body.to_vec()).expect("text");
    (status, asks_again, text)
}

fn post(body: impl Into<Body>) -> Request<Body> {
    Request::post("/mutate/pods?timeout=5s")
        .body(body.into())
        .expect("a request")
}

fn review() -> String {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "7", "operation": "CREATE", "kind": { "version": "v1", "kind": "Pod" },
            "object": { "metadata": {}, "spec": {} },
        },
    })
    .to_string()
}

#[tokio::test]
async fn a_review_is_answered_and_counted() {
    let (router, registry) = endpoints();
    let (status, body) = send(&router, post(review())).await;
    let body: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(
        (status, &body["response"]),
        (StatusCode::OK, &json!({ "uid": "7", "allowed": true }))
    );
    let mut metrics = String::new();
    text::encode(&mut metrics, &registry).expect("metrics");
    let counted =
        r#"webhook_requests_total{endpoint="mutate/pods",outcome="admitted",version="1.1"} 1"#;
    assert!(metrics.contains(counted), "{metrics}");
}

/// With a header that says when to try again, the API server would do so until its time is over, and then report only that.
#[tokio::test]
async fn without_a_chain_the_answer_is_at_once_and_final() {
    let (router, _) = endpoints_with(Arc::new(Unloaded));
    let (status, asks_again, text) = send_all(&router, post(review())).await;
    assert_eq!(
        (status, asks_again),
        (StatusCode::SERVICE_UNAVAILABLE, false)
    );
    let body: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        (&body["kind"], &body["code"]),
        (&json!("Status"), &json!(503))
    );
    assert_eq!(body["message"], "no plugin chain is loaded");
}

#[tokio::test]
async fn what_is_no_review_gets_400_with_the_reason() {
    let (router, _) = endpoints();
    for (body, expected) in [
        ("", "the body is not an AdmissionReview"),
        ("{}", "missing field"),
        (
            r#"{"apiVersion":"v1","kind":"Pod"}"#,
            "admissionReviewVersions: [v1]",
        ),
    ] {
        let (status, text) = send(&router, post(body)).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(text.contains(expected), "{text}");
    }
}

/// Seen: with `failurePolicy: Ignore`, such a pod passed as it was. The API server sends objects without a limit to their depth, and with
/// `<` as six bytes.
#[tokio::test]
async fn a_pod_that_is_too_large_to_be_read_is_denied() {
    let (router, _) = endpoints();
    let request = r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"7","kind":{"version":"v1","kind":"Pod"},"operation":"CREATE","userInfo":{"username":"alice"},"object":OBJECT,"oldObject":null}}"#;
    let wide = format!(r#"{{"env":[{}0]}}"#, r#"{"name":"A"},"#.repeat(50_000));
    let deep = format!(r#"{}0{}"#, r#"{"f:a":"#.repeat(200), "}".repeat(200));
    let long = format!(r#"{{"args":["{}"]}}"#, r"\u003c".repeat(1_450_000));
    for (object, why) in [
        (&wide, "make them smaller"),
        (&deep, "recursion limit exceeded"),
        (&long, "the body is longer than 8 MiB"),
    ] {
        let body = request.replace("OBJECT", object);
        let (status, text) = send(&router, post(body.clone())).await;
        let answer: Value = serde_json::from_str(&text).expect("JSON");
        let response = &answer["response"];
        assert_eq!((status, &response["uid"]), (StatusCode::OK, &json!("7")));
        assert_eq!(response["allowed"], false, "{text}");
        assert_eq!(response["status"]["code"], 422, "{text}");
        assert!(text.contains(why), "{text}");
        // A change of it is denied too, and what is none gets an error.
        let update = body.replacen("CREATE", "UPDATE", 1);
        let (status, _) = send(&router, post(update)).await;
        assert_eq!(status, StatusCode::OK);
        let delete = body.replacen("CREATE", "DELETE", 1);
        let (status, text) = send(&router, post(delete)).await;
        assert!(status.is_client_error(), "{text}");
    }
}

/// The API server sends no such body. With failurePolicy Ignore, its pod would pass without plugins.
#[tokio::test]
async fn a_pod_whose_review_is_no_text_is_denied() {
    let (router, _) = endpoints();
    let review = r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"7","kind":{"version":"v1","kind":"Pod"},"operation":"CREATE","userInfo":{"username":"USER"},"object":{"a":"OBJECT"}}}"#;
    for part in ["USER", "OBJECT"] {
        let (before, after) = review.split_once(part).expect("it is there");
        let body = [before.as_bytes(), b"\xff", after.as_bytes()].concat();
        let (status, text) = send(&router, post(body)).await;
        let answer: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(status, StatusCode::OK, "{part}: {text}");
        assert_eq!(answer["response"]["status"]["code"], 422, "{part}: {text}");
        assert!(text.contains("invalid utf-8"), "{part}: {text}");
    }
}

#[tokio::test]
async fn a_body_that_is_too_long_is_refused() {
    let (router, _) = endpoints();
    let (status, text) = send(&router, post(vec![b' '; (8 << 20) + 1])).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_is_given_up() {
    let (router, _) = endpoints();
    let never = Body::from_stream(futures::stream::pending::<Result<Vec<u8>, std::io::Error>>());
    let (status, text) = send(&router, post(never)).await;
    assert_eq!(status, StatusCode::REQUEST_TIMEOUT);
    assert!(text.contains("the body did not arrive in time"), "{text}");
}

/// A body of this length that never ends.
fn endless(length: usize) -> Body {
    let begun = futures::stream::iter([Ok::<_, std::io::Error>(vec![b' '; length])]);
    Body::from_stream(begun.chain(futures::stream::pending()))
}

fn from(peer: [u8; 4], body: Body) -> Request<Body> {
    let mut request = post(body);
    let peer = SocketAddr::from((peer, 1));
    request.extensions_mut().insert(ConnectInfo(peer));
    request
}

#[tokio::test]
async fn who_sends_much_is_refused_at_once_and_a_pod_of_others_still_fits() {
    let (router, _) = endpoints();
    let attacker = [127, 1, 0, 1];
    let mut held = Vec::new();
    for _ in 0..5 {
        let request = from(attacker, endless(7 << 20));
        held.push(tokio::spawn(router.clone().oneshot(request)));
    }
    while held.iter().filter(|task| !task.is_finished()).count() > 4 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let (status, asks_again, text) = send_all(&router, from(attacker, endless(8 << 20))).await;
    assert_eq!(
        (status, asks_again),
        (StatusCode::SERVICE_UNAVAILABLE, false)
    );
    assert!(text.contains("too many requests at once"), "{text}");
    let (status, text) = send(&router, from([127, 0, 0, 1], review().into())).await;
    assert_eq!(status, StatusCode::OK, "{text}");
}

/// A chain that takes a while, and counts the pods that it has.
#[derive(Default)]
struct Slow(Arc<AtomicUsize>);

impl PodMutator for Slow {
    fn mutate(&self, pod: Value, _: PodRequest) -> BoxFuture<'_, Result<MutatedPod, RejectedPod>> {
        let ended = Arc::clone(&self.0);
        async move {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            ended.fetch_add(1, Ordering::Relaxed);
            Ok(MutatedPod::untouched(pod))
        }
        .boxed()
    }

    fn chain(&self) -> Option<String> {
        None
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_does_not_free_what_the_chain_still_uses() {
    let ended = Arc::new(AtomicUsize::new(0));
    let (router, _) = endpoints_with(Arc::new(Slow(Arc::clone(&ended))));
    let sent = tokio::time::timeout(
        std::time::Duration::from_millis(50),
        send(&router, post(review())),
    );
    assert!(sent.await.is_err(), "the client goes away");
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert_eq!(ended.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn other_paths_and_methods_list_the_endpoints() {
    let (router, _) = endpoints();
    for (request, status) in [
        (
            Request::get("/mutate/pods").body(Body::empty()),
            StatusCode::METHOD_NOT_ALLOWED,
        ),
        (
            Request::post("/").body(Body::empty()),
            StatusCode::NOT_FOUND,
        ),
    ] {
        let (got, text) = send(&router, request.expect("a request")).await;
        assert_eq!(got, status);
        assert!(text.contains("POST /mutate/pods"), "{text}");
        for (endpoint, _) in &ROWS {
            assert!(text.contains(&format!("POST /{endpoint} ")), "{text}");
        }
    }
}

/// Work that waits twice, and then says that it is done.
async fn slow_work(done: tokio::sync::oneshot::Sender<()>) -> u8 {
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
    let _nobody_waits = done.send(());
    7
}

#[tokio::test]
async fn work_is_done_where_somebody_waits_for_it() {
    let (done, _waits) = tokio::sync::oneshot::channel();
    assert_eq!(super::Unfinished::of(slow_work(done)).await, 7);
}

#[tokio::test]
async fn work_that_nobody_waits_for_any_more_goes_on() {
    let (done, finished) = tokio::sync::oneshot::channel();
    let mut work = Box::pin(super::Unfinished::of(slow_work(done)));
    assert!(futures::poll!(&mut work).is_pending());
    drop(work);
    assert_eq!(finished.await, Ok(()));
}

#[tokio::test]
async fn a_panic_is_an_answer() {
    let response = super::to_the_end(async { panic!("a bug") }).await;
    assert_eq!(
        response.status(),
        axum::http::StatusCode::INTERNAL_SERVER_ERROR
    );
}

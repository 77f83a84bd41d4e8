use std::time::Duration;

use axum::http::{Request, Response, StatusCode};
use futures::FutureExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams};
use kube::client::Body;
use kube::{Api, Client};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use tokio::time::timeout;
use tower::{BoxError, service_fn};

use super::super::Requests;

/// A client of an API server that answers every request with this status, or not at all.
fn answering(requests: &Requests, code: Option<StatusCode>) -> Client {
    let requests = requests.clone();
    let service = service_fn(move |request: Request<Body>| {
        let pending = requests.begin(&request);
        async move {
            let code = code.ok_or("connection refused")?;
            pending.answered(code);
            let answer = Response::builder().status(code).body(Body::empty())?;
            Ok::<_, BoxError>(answer)
        }
    });
    Client::new(service, "default")
}

async fn every_verb(client: Client) {
    let pods: Api<Pod> = Api::namespaced(client, "default");
    let pod = Pod::default();
    let patch = Patch::Merge(&pod);
    let _ = pods.get("a").await;
    let _ = pods.list(&ListParams::default()).await;
    let _ = pods.list_metadata(&ListParams::default()).await;
    let _ = pods.watch(&WatchParams::default(), "0").await;
    let _ = pods.create(&PostParams::default(), &pod).await;
    let _ = pods.replace("a", &PostParams::default(), &pod).await;
    let _ = pods.patch("a", &PatchParams::default(), &patch).await;
    let _ = pods
        .patch_status("a", &PatchParams::default(), &patch)
        .await;
    let _ = pods.delete("a", &DeleteParams::default()).await;
}

#[tokio::test]
async fn requests_are_counted_by_verb_and_code() {
    let mut registry = Registry::default();
    let requests = Requests::register(&mut registry);
    every_verb(answering(&requests, Some(StatusCode::OK))).await;
    every_verb(answering(&requests, None)).await;
    let mut encoded = String::new();
    text::encode(&mut encoded, &registry).expect("encoded");
    for (verb, count) in [
        ("create", 1),
        ("delete", 1),
        ("get", 1),
        ("list", 2),
        ("patch", 2),
        ("update", 1),
        ("watch", 1),
    ] {
        for code in ["200", "none"] {
            let line = format!("api_requests_total{{verb=\"{verb}\",code=\"{code}\"}} {count}\n");
            assert!(encoded.contains(&line), "{line} in {encoded}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn some_answers_may_mean_a_missing_kind_or_right() {
    for (code, verb, expected) in [
        (StatusCode::UNAUTHORIZED, "get", true),
        (StatusCode::FORBIDDEN, "create", true),
        (StatusCode::FORBIDDEN, "list", true),
        (StatusCode::NOT_FOUND, "list", true),
        (StatusCode::NOT_FOUND, "watch", true),
        (StatusCode::NOT_FOUND, "get", false),
        (StatusCode::NOT_FOUND, "patch", false),
        (StatusCode::CONFLICT, "update", false),
        (StatusCode::SERVICE_UNAVAILABLE, "watch", false),
        (StatusCode::TOO_MANY_REQUESTS, "list", false),
        (StatusCode::GONE, "watch", false),
        (StatusCode::INTERNAL_SERVER_ERROR, "list", true),
        (StatusCode::METHOD_NOT_ALLOWED, "watch", true),
        (StatusCode::INTERNAL_SERVER_ERROR, "create", false),
        (StatusCode::OK, "watch", false),
    ] {
        let requests = Requests::default();
        let (mut first, mut second) = (requests.access_failures(), requests.access_failures());
        let request = Request::builder()
            .method(match verb {
                "create" => "POST",
                "update" => "PUT",
                "patch" => "PATCH",
                _ => "GET",
            })
            .extension(verb)
            .body(())
            .expect("a request");
        requests.begin(&request).answered(code);
        // Every waiter is woken.
        for failures in [&mut first, &mut second] {
            let failed = timeout(Duration::from_secs(1), failures.changed());
            assert_eq!(failed.await.is_ok(), expected, "{verb} {code}");
        }
    }
    let unanswered = Requests::default();
    let mut failures = unanswered.access_failures();
    drop(unanswered.begin(&Request::new(())));
    assert!(failures.changed().now_or_never().is_none());
}

//! The console: who may see it, what it answers, and that nobody can hurt it by the name of a pod.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, BodyDataStream};
use axum::extract::ConnectInfo;
use futures::StreamExt;
use http::{HeaderMap, Request, Response, StatusCode, header};
use podloom_mutation::PodRequest;
use podloom_mutators::Reload;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::ServiceExt;

use super::{App, HERE, app, broken, empty_chain, get, router, serve, state};
use crate::log::Filter;
use crate::mutator::{ChainMutator, NoChainPolicy};
use crate::run::history::History;
use crate::run::state::{OperatorState, Role};

const FILES: [(&str, &str); 3] = [
    ("/console", "text/html; charset=utf-8"),
    ("/console/style.css", "text/css; charset=utf-8"),
    ("/console/script.js", "text/javascript; charset=utf-8"),
];
const EVENTS: &str = "/console/events";

/// An operator with a console.
fn watched() -> Arc<OperatorState> {
    let mut state = Arc::into_inner(state(NoChainPolicy::Reject)).expect("nobody else has it");
    state.history = Some(Arc::new(History::new(Some("podloom-0".to_owned()))));
    Arc::new(state)
}

async fn send(router: &Router, peer: &str, host: &str, request: &str) -> Response<Body> {
    let peer: SocketAddr = peer.parse().expect("an address");
    let (method, path) = request.split_once(' ').expect("a method and a path");
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, host)
        .extension(ConnectInfo(peer))
        .body(Body::empty())
        .expect("a request");
    router.clone().oneshot(request).await.expect("infallible")
}

async fn listen(router: &Router) -> BodyDataStream {
    let response = send(router, HERE, "localhost:8080", "GET /console/events").await;
    assert_eq!(response.status(), StatusCode::OK);
    let content_type = &response.headers()[header::CONTENT_TYPE];
    assert_eq!(content_type, "text/event-stream");
    assert_safe(response.headers());
    response.into_body().into_data_stream()
}

async fn frame(events: &mut BodyDataStream) -> Option<String> {
    let frame = events.next().await?.expect("it is not cut off");
    Some(String::from_utf8(frame.to_vec()).expect("UTF-8"))
}

/// The state in the next event, which must be one.
async fn next(events: &mut BodyDataStream) -> Value {
    let frame = frame(events).await.expect("it goes on");
    let mut lines = frame
        .lines()
        .filter(|line| !line.is_empty() && *line != "retry: 1000");
    let state = lines.next().and_then(|line| line.strip_prefix("data: "));
    assert_eq!(lines.next(), None, "a state is one line");
    serde_json::from_str(state.unwrap_or_else(|| panic!("{frame}"))).expect("JSON")
}

#[track_caller]
fn assert_safe(headers: &HeaderMap) {
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                  base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    for (name, value) in [
        ("content-security-policy", policy),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        let all: Vec<_> = headers.get_all(name).iter().collect();
        assert_eq!(all, [value], "{name}");
    }
}

#[tokio::test]
async fn without_the_option_there_is_no_console() {
    let router = serve(&state(NoChainPolicy::Reject));
    for (path, _) in [FILES.as_slice(), &[(EVENTS, "")]].concat() {
        let lost = get(&router, path).await;
        assert_eq!(lost.status, StatusCode::NOT_FOUND);
        assert!(
            lost.body.starts_with(&format!("{path} not found; ")),
            "{}",
            lost.body
        );
    }
}

#[tokio::test]
async fn the_page_and_its_files_can_be_read_and_nothing_else() {
    let router = serve(&watched());
    for (path, content_type) in FILES {
        let page = send(&router, HERE, "localhost", &format!("GET {path}")).await;
        assert_eq!(page.status(), StatusCode::OK);
        assert_eq!(page.headers()[header::CONTENT_TYPE], content_type);
        assert_safe(page.headers());
        let body = super::text(page.into_body()).await;
        // With the policy of its header, these would not work anyway.
        for outside in [
            "http://",
            "https://",
            "style=",
            "onclick",
            "innerHTML",
            "eval(",
        ] {
            let allowed = body.replace("http://www.w3.org/2000/svg", "");
            assert!(!allowed.contains(outside), "{path} has {outside}");
        }
        let head = send(&router, HERE, "localhost", &format!("HEAD {path}")).await;
        assert_eq!(head.status(), StatusCode::OK);
        assert_safe(head.headers());
        assert_eq!(super::text(head.into_body()).await, "");
    }
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        for path in ["/console", EVENTS] {
            let refused = send(&router, HERE, "localhost", &format!("{method} {path}")).await;
            assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED, "{method}");
        }
    }
}

#[tokio::test]
async fn only_localhost_sees_it_and_only_by_a_name_of_its_own() {
    let router = serve(&watched());
    for path in ["/console", "/console/script.js", EVENTS] {
        let request = format!("GET {path}");
        for peer in ["10.1.2.3:5000", "[2001:db8::1]:5000"] {
            let refused = send(&router, peer, "localhost", &request).await;
            assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{peer}");
            assert_safe(refused.headers());
            let body = super::text(refused.into_body()).await;
            let advice = format!("{path} answers only requests from localhost");
            assert!(body.starts_with(&advice), "{body}");
        }
        // Their owner can make these names lead to localhost.
        for host in [
            "example.com",
            "example.com:8080",
            "localhost.example.com",
            "a b",
        ] {
            let refused = send(&router, HERE, host, &request).await;
            assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{host}");
        }
        for host in [
            "localhost",
            "LOCALHOST:8080",
            "127.0.0.1:1",
            "[::1]:8080",
            "[::1]",
        ] {
            let answer = send(&router, HERE, host, &request).await;
            assert_eq!(answer.status(), StatusCode::OK, "{host}");
        }
    }
}

#[tokio::test]
async fn a_bounded_number_of_pages_listens() {
    let router = serve(&watched());
    // Who only asks for the header takes no place.
    for _ in 0..20 {
        let head = send(&router, HERE, "localhost", "HEAD /console/events").await;
        assert_eq!(head.status(), StatusCode::OK);
    }
    let mut listeners = Vec::new();
    for _ in 0..8 {
        listeners.push(listen(&router).await);
    }
    let refused = send(&router, HERE, "localhost", "GET /console/events").await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.headers()[header::RETRY_AFTER], "10");
    listeners.pop();
    let mut listener = listen(&router).await;
    assert_eq!(next(&mut listener).await["replica"], "podloom-0");
}

#[tokio::test(start_paused = true)]
async fn a_page_gets_the_state_when_it_changes_until_the_operator_stops() {
    let state = watched();
    let router = serve(&state);
    let mut events = listen(&router).await;
    let mut other = listen(&router).await;
    let first = next(&mut events).await;
    assert_eq!(first["chain"]["digest"], Value::Null);
    assert_eq!(next(&mut other).await, first);

    let began = Instant::now();
    assert_eq!(frame(&mut events).await.as_deref(), Some(":\n\n"));
    assert_eq!(began.elapsed(), Duration::from_secs(10), "nothing changed");

    let chain = empty_chain();
    state.slot.swap(Arc::clone(&chain));
    let began = Instant::now();
    assert_eq!(next(&mut events).await["chain"]["digest"], chain.digest());
    assert!(began.elapsed() <= Duration::from_secs(1));

    state.slot.refuse(&broken("out of threads"));
    let refused = next(&mut events).await;
    let error = &refused["chain"]["error"]["message"];
    assert_eq!(*error, broken("out of threads").to_string());
    assert_eq!(refused["chain"]["digest"], chain.digest());

    let began = Instant::now();
    state.stop.cancel();
    assert_eq!(frame(&mut events).await, None);
    while frame(&mut other).await.is_some() {}
    assert_eq!(began.elapsed(), Duration::ZERO, "nobody waits for them");
}

/// Its connection would be cut off a little later.
#[tokio::test(start_paused = true)]
async fn events_end_by_themselves() {
    let router = serve(&watched());
    let began = Instant::now();
    let mut events = listen(&router).await;
    while let Some(frame) = frame(&mut events).await {
        assert!(frame.contains("data: ") || frame == ":\n\n", "{frame}");
    }
    assert_eq!(began.elapsed(), Duration::from_secs(50));
}

#[tokio::test]
async fn the_latest_pods_are_shown_whatever_they_are_called_and_without_their_values() {
    let state = watched();
    let history = state.history.clone().expect("it is on");
    let mutator = ChainMutator {
        recent: Some(Arc::clone(&history.pods)),
        ..ChainMutator::of(None)
    };
    let long = "ä".repeat(5000);
    let names = [
        "<img src=x onerror=alert(1)>",
        "a\r\n\r\ndata: {}\n\nevent: x",
        "\u{202e}\u{0}\u{2028}</script>",
        &long,
        "",
    ];
    for name in names {
        let request = PodRequest {
            kind: "Pod",
            name: name.to_owned(),
            namespace: "shop".to_owned(),
            annotations: [("password".to_owned(), "hunter2".to_owned())].into(),
            ..PodRequest::default()
        };
        let pod = json!({ "spec": { "containers": [{ "env": [{ "value": "hunter2" }] }] } });
        mutator
            .pass(pod, request)
            .await
            .expect("no panic")
            .expect("allowed");
    }
    let mut events = listen(&serve(&state)).await;
    let shown = next(&mut events).await;
    assert!(!shown.to_string().contains("hunter2"), "{shown:#}");
    let pods = shown["pods"].as_array().expect("a list");
    let shown: Vec<&str> = pods
        .iter()
        .rev()
        .filter_map(|pod| pod["name"].as_str())
        .collect();
    let short = format!("{}...", "ä".repeat(128));
    assert_eq!(shown, [names[0], names[1], names[2], &short, ""]);
    let first = &pods[4];
    assert_eq!(first["number"], 1);
    assert_eq!(first["verdict"], "allowed");
    assert_eq!(first["plugins"], json!([]));
}

/// Pods of two namespaces.
fn drifted() -> Family<Vec<(&'static str, &'static str)>, Gauge> {
    let drifted = Family::<Vec<(&str, &str)>, Gauge>::default();
    for (namespace, result, pods) in [
        ("a", "older", 9),
        ("b", "missed", 2),
        ("b", "changed", 1),
        ("b", "ephemeral", 4),
    ] {
        let labels = vec![("namespace", namespace), ("result", result)];
        drifted.get_or_create(&labels).set(pods);
    }
    drifted
}

#[tokio::test]
async fn what_is_counted_comes_from_the_metrics() {
    let state = watched();
    state.slot.swap(empty_chain());
    let history = state.history.clone().expect("it is on");
    history.attempted(&Reload::Swapped {
        chain: state.slot.serving().chain.clone().expect("it serves"),
        took: Duration::from_millis(250),
    });
    let mut registry = Registry::default();
    let ours = registry.sub_registry_with_prefix("podloom");
    let objects = Family::<Vec<(&str, &str)>, Gauge>::default();
    ours.register("objects", "Objects", objects.clone());
    let running = vec![("controller", "browser"), ("phase", "Running")];
    objects.get_or_create(&running).set(10_000);
    ours.register("drift_pods", "Pods", drifted());
    let looks = Family::<Vec<(&str, &str)>, Counter>::default();
    ours.register("drift_looks", "Looks", looks.clone());
    looks.get_or_create(&vec![("outcome", "complete")]).inc();
    // Of a plugin that is not in the chain.
    let calls =
        Family::<Vec<(&str, &str)>, Histogram>::new_with_constructor(|| Histogram::new([0.1]));
    ours.register_with_unit(
        "plugin_call_duration",
        "Calls",
        Unit::Seconds,
        calls.clone(),
    );
    calls.get_or_create(&vec![("plugin", "gone")]).observe(0.01);
    // It does not run here.
    let cleaner = vec![("controller", "cleaner"), ("phase", "Running")];
    objects.get_or_create(&cleaner).set(0);
    super::browser(&state).take(Role::Alone);
    let (log, _layer) = Filter::detached("info");
    let router = router(App::new(&state, &Arc::new(registry), log));
    let shown = next(&mut listen(&router).await).await;
    assert_eq!(
        shown["objects"],
        json!([{ "controller": "browser", "works": true, "phases": [{ "phase": "Running", "count": 10_000 }] }])
    );
    assert_eq!(shown["latency"], json!([]));
    let drift = &shown["drift"];
    assert_eq!(
        drift["all"],
        json!({ "missed": 2, "changed": 1, "older": 9, "ephemeral": 4 })
    );
    assert_eq!(drift["looks"], json!({ "complete": 1 }));
    let worst = json!({ "namespace": "b", "missed": 2, "changed": 1, "older": 0, "ephemeral": 4 });
    assert_eq!(drift["namespaces"][0], worst);
    assert_eq!(shown["candidate"], Value::Null);
    assert_eq!(shown["reloads"][0]["outcome"], "success");
    assert_eq!(shown["reloads"][0]["milliseconds"], 250.0);
    assert_eq!(shown["reloads"][0]["chain"], shown["chain"]["digest"]);
    let checks = shown["checks"].as_array().expect("a list");
    let running = json!({ "name": "running", "passed": true, "text": "not stopping" });
    assert_eq!(
        (checks.first(), &shown["ready"]),
        (Some(&running), &json!(false))
    );
}

#[tokio::test]
async fn the_other_endpoints_stay_as_they_are() {
    let router = router(app(&watched()));
    assert_eq!(get(&router, "/healthz").await.body, "ok\n");
    let lost = get(&router, "/consoles").await;
    assert_eq!(lost.status, StatusCode::NOT_FOUND);
    assert!(lost.body.contains("GET /console "), "{}", lost.body);
}

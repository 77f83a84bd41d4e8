use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::ConnectInfo;
use http::{Request, StatusCode, header};
use podloom_controllers::duties::{Duty, Row};
use podloom_mutators::{Bundle, Chain, Engine, EngineOptions, InstanceAllocation, LoadError};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::time::{Instant, advance};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::{App, probes, router};
use crate::log::Filter;
use crate::mutator::NoChainPolicy;
use crate::run::metrics::ProcessMetrics;
use crate::run::state::{Access, DutyState, OperatorState, Renewed, Role};
use crate::run::tests::fixtures::CLUSTERS;

mod console;

const HERE: &str = "127.0.0.1:40000";

struct Answer {
    status: StatusCode,
    content_type: String,
    body: String,
}

async fn ask(router: &Router, peer: &str, method: &str, path: &str, body: &str) -> Answer {
    let peer: SocketAddr = peer.parse().expect("an address");
    let request = Request::builder()
        .method(method)
        .uri(path)
        .extension(ConnectInfo(peer))
        .body(Body::from(body.to_owned()))
        .expect("a request");
    send(router, request).await
}

/// Asks as a browser of this machine does, by this name of the server, for a page of this site.
async fn browse(router: &Router, path: &str, host: &str, site: &str) -> StatusCode {
    let peer: SocketAddr = HERE.parse().expect("an address");
    let request = Request::builder()
        .uri(path)
        .header(header::HOST, host)
        .header("sec-fetch-site", site)
        .extension(ConnectInfo(peer))
        .body(Body::empty())
        .expect("a request");
    send(router, request).await.status
}

/// A page that somebody opens while kubectl port-forward runs.
#[tokio::test]
async fn a_foreign_page_gets_nothing_that_is_for_localhost() {
    let router = serve(&state(NoChainPolicy::Reject));
    for (host, site, status) in [
        ("evil.example:8080", "same-origin", StatusCode::FORBIDDEN),
        ("localhost:8080", "cross-site", StatusCode::FORBIDDEN),
        ("localhost:8080", "same-site", StatusCode::FORBIDDEN),
        ("localhost:8080", "same-origin", StatusCode::OK),
        ("127.0.0.1:8080", "none", StatusCode::OK),
    ] {
        let got = browse(&router, "/log", host, site).await;
        assert_eq!(got, status, "{host} {site}");
        let candidate = browse(&router, "/plugins/candidate", host, site).await;
        let is_refused = candidate == StatusCode::FORBIDDEN;
        assert_eq!(is_refused, status == StatusCode::FORBIDDEN, "{host} {site}");
    }
}

async fn ask_for(router: &Router, path: &str, accept: &str) -> Answer {
    let request = Request::builder()
        .uri(path)
        .header(header::ACCEPT, accept)
        .body(Body::empty())
        .expect("a request");
    send(router, request).await
}

async fn send(router: &Router, request: Request<Body>) -> Answer {
    let response = router.clone().oneshot(request).await.expect("infallible");
    let content_type = response.headers().get(header::CONTENT_TYPE);
    let content_type = content_type.map(|value| value.to_str().expect("ASCII").to_owned());
    Answer {
        status: response.status(),
        content_type: content_type.unwrap_or_default(),
        body: text(response.into_body()).await,
    }
}

async fn text(body: Body) -> String {
    let bytes = to_bytes(body, 1 << 20).await.expect("a body");
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

async fn get(router: &Router, path: &str) -> Answer {
    ask(router, HERE, "GET", path, "").await
}

fn state(no_chain_policy: NoChainPolicy) -> Arc<OperatorState> {
    state_of(&[Duty::Browser.row()], no_chain_policy)
}

fn state_of(rows: &[&'static Row], no_chain_policy: NoChainPolicy) -> Arc<OperatorState> {
    let stop = CancellationToken::new();
    let duties = rows.iter().map(|row| {
        let duty = DutyState::new(row, Gauge::default(), stop.clone());
        Arc::new(duty)
    });
    Arc::new(OperatorState::new(
        no_chain_policy,
        duties.collect(),
        stop.clone(),
    ))
}

fn browser(state: &OperatorState) -> &DutyState {
    state.duty("browser").expect("it is enabled")
}

fn serve(state: &Arc<OperatorState>) -> Router {
    router(app(state))
}

fn app(state: &Arc<OperatorState>) -> App {
    let (log, layer) = Filter::detached("info");
    // The filter works for as long as its layer lives, here to the end of the process.
    std::mem::forget(layer);
    let mut registry = Registry::default();
    registry.register_collector(Box::new(ProcessMetrics));
    App::new(state, &Arc::new(registry), log)
}

/// A chain without plugins.
fn empty_chain() -> Arc<Chain> {
    let directory = tempfile::tempdir().expect("a directory");
    let manifest = "apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\nplugins: []\n";
    std::fs::write(directory.path().join("chain.yaml"), manifest).expect("written");
    let options = EngineOptions {
        permits: None,
        instances: InstanceAllocation::OnDemand,
        ..EngineOptions::default()
    };
    let engine = Engine::new(&options).expect("an engine");
    let bundle = Bundle::read(directory.path()).expect("a bundle");
    Arc::new(Chain::load(&engine, &bundle).expect("a chain"))
}

#[tokio::test]
async fn alive_from_the_start_and_ready_when_all_checks_pass() {
    let state = state(NoChainPolicy::Reject);
    let router = serve(&state);
    assert_eq!(get(&router, "/healthz").await.body, "ok\n");
    insta::assert_snapshot!("at_start", readyz(&router, 503).await);

    state.slot.refuse(&broken("no such directory"));
    let missing = "browsers.selenosis.io is not served".to_owned();
    browser(&state)
        .access
        .send_replace(Access::Lacking(vec![missing]));
    insta::assert_snapshot!("lacking", readyz(&router, 503).await);

    state.slot.swap(empty_chain());
    browser(&state).access.send_replace(Access::Granted);
    browser(&state).take(Role::Follower("podloom-1".to_owned()));
    assert_eq!(browser(&state).leader.get(), 0);
    insta::assert_snapshot!("following", readyz(&router, 200).await);

    state.slot.refuse(&broken("out of threads"));
    browser(&state).take(Role::Leader);
    assert_eq!(browser(&state).leader.get(), 1);
    insta::assert_snapshot!("last_good_chain", readyz(&router, 200).await);

    state.stop.cancel();
    insta::assert_snapshot!("stopping", readyz(&router, 503).await);
    assert_eq!(get(&router, "/healthz").await.status, StatusCode::OK);
}

fn broken(message: &str) -> Arc<LoadError> {
    Arc::new(LoadError::broken(Path::new("/plugins"), message))
}

async fn readyz(router: &Router, status: u16) -> String {
    let answer = get(router, "/readyz").await;
    assert_eq!(answer.status.as_u16(), status, "{}", answer.body);
    assert_eq!(get(router, "/readyz?verbose").await.body, answer.body);
    answer.body
}

#[tokio::test]
async fn without_plugins_it_is_ready_if_that_is_allowed() {
    let state = state(NoChainPolicy::PassThrough);
    browser(&state).access.send_replace(Access::Granted);
    browser(&state).take(Role::Alone);
    insta::assert_snapshot!("without_plugins", readyz(&serve(&state), 200).await);
}

#[tokio::test]
async fn readyz_answers_for_one_duty_by_name() {
    let state = state_of(&[Duty::Browser.row(), &CLUSTERS], NoChainPolicy::Reject);
    let router = serve(&state);
    let clusters = state.duty("clusters").expect("it is enabled");
    clusters.access.send_replace(Access::Granted);
    clusters.take(Role::Leader);
    // It does not wait for the chain, which it does not need, nor for the other duty.
    let own = get(&router, "/readyz/clusters").await;
    assert_eq!(own.status, StatusCode::OK, "{}", own.body);
    insta::assert_snapshot!("a_duty_alone", own.body);
    let other = get(&router, "/readyz/browser").await;
    assert_eq!(other.status, StatusCode::SERVICE_UNAVAILABLE);
    insta::assert_snapshot!("two_duties", readyz(&router, 503).await);

    let missing = "clusters.example.com is not served".to_owned();
    clusters.access.send_replace(Access::Lacking(vec![missing]));
    state.slot.swap(empty_chain());
    browser(&state).access.send_replace(Access::Granted);
    browser(&state).take(Role::Follower("podloom-1".to_owned()));
    let status = async |path| get(&router, path).await.status.as_u16();
    assert_eq!(status("/readyz/clusters").await, 503);
    assert_eq!(status("/readyz/browser").await, 200);
    assert_eq!(status("/readyz").await, 503);
    for router in [&router, &probes(app(&state))] {
        let off = get(router, "/readyz/portal").await;
        assert_eq!(off.status, StatusCode::NOT_FOUND);
        assert_eq!(
            off.body,
            "duty \"portal\" is not enabled by --controllers; enabled: browser, clusters\n"
        );
    }
}

#[tokio::test]
async fn without_duties_it_is_ready_and_needs_no_chain() {
    let router = serve(&state_of(&[], NoChainPolicy::Reject));
    assert_eq!(
        readyz(&router, 200).await,
        "[+]running ok: not stopping\nreadyz check passed\n"
    );
    let off = get(&router, "/readyz/browser").await;
    assert_eq!(off.status, StatusCode::NOT_FOUND);
    assert!(off.body.ends_with("no duty is enabled\n"), "{}", off.body);
    assert_eq!(get(&router, "/healthz").await.status, StatusCode::OK);
}

#[tokio::test]
async fn plugins_shows_the_active_chain_and_the_last_error() {
    let state = state(NoChainPolicy::Reject);
    let router = serve(&state);
    let plugins = async || {
        let answer = get(&router, "/plugins").await;
        assert_eq!(answer.content_type, "application/json");
        serde_json::from_str::<serde_json::Value>(&answer.body).expect("JSON")
    };
    let none = plugins().await;
    assert_eq!(none["chain"], serde_json::Value::Null);
    assert_eq!(none["plugins"], serde_json::json!([]));
    assert_eq!(none["lastError"], serde_json::Value::Null);

    let chain = empty_chain();
    state.slot.swap(Arc::clone(&chain));
    assert!(!state.slot.refuse(&broken("out of threads")));
    assert!(state.slot.refuse(&broken("out of threads")), "it is known");
    let serving = plugins().await;
    assert_eq!(serving["chain"], chain.digest());
    let error = &serving["lastError"];
    assert_eq!(error["message"], broken("out of threads").to_string());
    assert_eq!(error["reason"], "broken");
    for time in [&serving["lastReload"], &serving["lastError"]["at"]] {
        let time = time.as_str().expect("a time");
        time.parse::<jiff::Timestamp>().expect("RFC 3339");
    }
}

#[tokio::test]
async fn metrics_are_in_the_format_that_is_asked_for() {
    let router = serve(&state(NoChainPolicy::Reject));
    let plain = get(&router, "/metrics").await;
    assert!(plain.content_type.starts_with("text/plain; version=0.0.4"));
    assert!(!plain.body.contains("# EOF"));
    let types = plain
        .body
        .lines()
        .filter(|line| line.starts_with("# TYPE "));
    for line in types {
        let kind = line.rsplit(' ').next().expect("a type");
        assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
    }
    let answer = ask_for(&router, "/metrics", "application/openmetrics-text").await;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(
        answer
            .content_type
            .starts_with("application/openmetrics-text; version=1.0.0")
    );
    for name in [
        "process_resident_memory_bytes ",
        "process_cpu_seconds_total ",
    ] {
        assert!(answer.body.contains(name), "{}", answer.body);
    }
    assert!(answer.body.ends_with("# EOF\n"));
}

#[tokio::test]
async fn the_log_filter_is_changed_only_from_localhost() {
    let router = serve(&state(NoChainPolicy::Reject));
    for peer in [
        "10.1.2.3:5000",
        "[2001:db8::1]:5000",
        "[::ffff:10.1.2.3]:5000",
        // Proxies of service meshes in the pod have such addresses.
        "127.0.0.6:5000",
    ] {
        for method in ["GET", "PUT"] {
            let refused = ask(&router, peer, method, "/log", "debug").await;
            assert_eq!(refused.status, StatusCode::FORBIDDEN, "{peer}");
        }
    }
    assert_eq!(get(&router, "/log").await.body, "info\n");
    for (peer, filter) in [
        (HERE, "error"),
        ("[::1]:5000", "off"),
        ("[::ffff:127.0.0.1]:5000", "error\n"),
    ] {
        let changed = ask(&router, peer, "PUT", "/log", filter).await;
        assert_eq!(changed.status, StatusCode::OK, "{}", changed.body);
        assert_eq!(get(&router, "/log").await.body.trim(), filter.trim());
    }
    for filter in ["", "podloom=loud"] {
        let wrong = ask(&router, HERE, "PUT", "/log", filter).await;
        assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
        assert!(wrong.body.contains("info,podloom=debug"), "{}", wrong.body);
    }
    assert_eq!(get(&router, "/log").await.body, "error\n");
    let long = ask(&router, HERE, "PUT", "/log", &"a".repeat(5000)).await;
    assert_eq!(long.status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn the_candidate_answers_only_localhost() {
    let router = serve(&state(NoChainPolicy::Reject));
    let path = "/plugins/candidate";
    let refused = ask(&router, "10.1.2.3:5000", "GET", path, "").await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let advice = "/plugins/candidate answers only requests from localhost";
    assert!(refused.body.starts_with(advice), "{}", refused.body);
    // This operator has none.
    assert_eq!(get(&router, path).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn an_unknown_path_is_answered_with_the_endpoints() {
    let router = serve(&state(NoChainPolicy::Reject));
    let lost = get(&router, "/metricz").await;
    assert_eq!(lost.status, StatusCode::NOT_FOUND);
    assert!(
        lost.body
            .starts_with("/metricz not found; the endpoints are\n\nGET /healthz"),
        "{}",
        lost.body
    );
    let wrong = ask(&router, HERE, "POST", "/readyz", "").await;
    assert_eq!(wrong.status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(wrong.body.contains("GET /readyz"), "{}", wrong.body);
}

#[tokio::test]
async fn the_probes_listener_serves_only_probes() {
    let state = state(NoChainPolicy::Reject);
    let probes = probes(app(&state));
    assert_eq!(get(&probes, "/healthz").await.body, "ok\n");
    let ready = get(&probes, "/readyz").await;
    assert_eq!(ready.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(ready.body, get(&serve(&state), "/readyz").await.body);
    for path in ["/metrics", "/plugins", "/log"] {
        let other = get(&probes, path).await;
        assert_eq!(other.status, StatusCode::NOT_FOUND, "{path}");
        assert!(!other.body.contains("GET /metrics"), "{}", other.body);
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_neither_renews_nor_stops_fails_its_liveness_probe() {
    let state = state(NoChainPolicy::Reject);
    let router = serve(&state);
    let status = async || get(&router, "/healthz").await.status;
    let good_for = Duration::from_secs(15);
    let renew = || {
        let at = Instant::now();
        browser(&state)
            .renewed
            .send_replace(Some(Renewed { at, good_for }));
    };
    browser(&state).take(Role::Leader);
    renew();
    advance(Duration::from_secs(25)).await;
    assert_eq!(status().await, StatusCode::OK);
    advance(Duration::from_secs(1)).await;
    let stuck = get(&router, "/healthz").await;
    assert_eq!(stuck.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(
        stuck.body.contains("last renewed 26 s ago"),
        "{}",
        stuck.body
    );
    renew();
    assert_eq!(status().await, StatusCode::OK);

    browser(&state).take(Role::Follower("podloom-1".to_owned()));
    advance(Duration::from_secs(600)).await;
    assert_eq!(status().await, StatusCode::OK, "a follower is alive");
}

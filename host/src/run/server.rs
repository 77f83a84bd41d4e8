//! The operator's HTTP endpoints: probes, metrics, the chain, the log filter and the console.

mod console;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{ConnectInfo, DefaultBodyLimit, Path, Request, State as Shared};
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use axum::{Router, middleware};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::task::{spawn_blocking, yield_now};

use self::console::Console;
use super::checks::{Check, alive, checks, checks_of, is_ready, show};
use super::connections::{ConnectionLimits, WhenFull};
use super::history::chain_state;
use super::metrics::MetricsFormat;
use super::state::OperatorState;
use crate::log::Filter;

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The longest request body. Only PUT /log has one, and a log filter is short.
const BODY_BYTES: usize = 4096;

/// How long the last requests may take when the server stops.
const LAST_REQUESTS: Duration = Duration::from_secs(2);

const ENDPOINTS: &str = "\
GET /healthz   liveness: 200, or 503 if the process must be restarted
GET /readyz    readiness: 200 or 503, and one line per check; /readyz/DUTY for one duty
GET /metrics   metrics for Prometheus
GET /plugins   the active plugin chain, as JSON
GET /plugins/candidate   what the chain of --candidate would make of the same pods, as JSON (only from localhost)
GET /console   a page about the chain and the latest pods, if --console is set (only from localhost)
GET /log       the log filter (only from localhost)
PUT /log       change the log filter, for example to info,podloom=debug (only from localhost)
";

const PROBES: &str = "\
GET /healthz   liveness: 200, or 503 if the process must be restarted
GET /readyz    readiness: 200 or 503, and one line per check; /readyz/DUTY for one duty
";

/// For scrapers, people and probes. The limit per peer is high enough for an address that many share, such as that of a node.
pub(super) const HTTP_LIMITS: ConnectionLimits = ConnectionLimits {
    connections: 256,
    of_one_peer: 16,
    when_full: WhenFull::RefuseNew,
    is_reused: true,
    header: Duration::from_secs(10),
    write: Duration::from_secs(5),
    // The console's events have no end.
    read: Duration::MAX,
    life: Duration::from_secs(60),
    last: LAST_REQUESTS,
};

/// For probes only. Each connection gets one short answer, so nobody can hold it for longer than the header timeout, and a silent peer
/// loses it as soon as a newer one needs it.
pub(super) const PROBES_LIMITS: ConnectionLimits = ConnectionLimits {
    connections: 256,
    of_one_peer: 8,
    when_full: WhenFull::CloseOldestSilent,
    is_reused: false,
    header: Duration::from_secs(2),
    write: Duration::from_secs(2),
    read: Duration::MAX,
    life: Duration::from_secs(5),
    last: LAST_REQUESTS,
};

/// The state behind the endpoints.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) state: Arc<OperatorState>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) log: Filter,
    /// The page for people; none if it is off.
    console: Option<Arc<Console>>,
}

impl App {
    pub(crate) fn new(state: &Arc<OperatorState>, registry: &Arc<Registry>, log: Filter) -> Self {
        Self {
            state: Arc::clone(state),
            registry: Arc::clone(registry),
            log,
            console: Console::of(state, registry),
        }
    }
}

/// All endpoints. Each request must carry the address of its peer, as [`ConnectInfo`].
pub(crate) fn router(app: App) -> Router {
    let here = |methods: MethodRouter<App>| methods.route_layer(middleware::from_fn(only_here));
    let router = probes_and_fallbacks(ENDPOINTS)
        .route("/metrics", get(metrics))
        .route("/plugins", get(plugins))
        .route("/plugins/candidate", here(get(candidate)))
        .route("/log", here(get(log).put(change_log)));
    let router = match &app.console {
        Some(console) => router.merge(console::routes(Arc::clone(console))),
        None => router,
    };
    limited(router, app)
}

/// The endpoints for probes, which all answer quickly.
pub(crate) fn probes(app: App) -> Router {
    limited(probes_and_fallbacks(PROBES), app)
}

/// The endpoints of both listeners. For any other request the answer lists the endpoints of this listener.
fn probes_and_fallbacks(endpoints: &'static str) -> Router<App> {
    Router::new()
        .route("/", get(async move || endpoints))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/readyz/{duty}", get(readyz_of))
        .fallback(move |uri: Uri| async move { not_found(&uri, endpoints) })
        .method_not_allowed_fallback(move |method: Method, uri: Uri| async move {
            wrong_method(&method, &uri, endpoints)
        })
}

fn limited(router: Router<App>, app: App) -> Router {
    router
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .layer(middleware::from_fn(in_time))
        .with_state(app)
}

async fn healthz(Shared(app): Shared<App>) -> Response {
    match alive(&app.state) {
        Ok(()) => "ok\n".into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

async fn readyz(Shared(app): Shared<App>) -> Response {
    verdict(&checks(&app.state))
}

async fn readyz_of(Shared(app): Shared<App>, Path(name): Path<String>) -> Response {
    if let Some(duty) = app.state.duty(&name) {
        return verdict(&checks_of(&app.state, duty));
    }
    let duties = app.state.duties.iter().map(|duty| duty.row.name);
    let on = match duties.collect::<Vec<_>>().as_slice() {
        [] => "no duty is enabled".to_owned(),
        names => format!("enabled: {}", names.join(", ")),
    };
    let text = format!("duty {name:?} is not enabled by --controllers; {on}\n");
    (StatusCode::NOT_FOUND, text).into_response()
}

fn verdict(checks: &[Check]) -> Response {
    let status = if is_ready(checks) {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, show(checks)).into_response()
}

async fn metrics(Shared(app): Shared<App>, headers: HeaderMap) -> Response {
    let mut body = String::new();
    if let Err(error) = text::encode(&mut body, &app.registry) {
        return (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response();
    }
    let format = MetricsFormat::accepted(&headers);
    let body = format.of_open_metrics(body);
    ([(CONTENT_TYPE, format.content_type())], body).into_response()
}

async fn plugins(Shared(app): Shared<App>) -> Response {
    as_json(&chain_state(&app.state.slot.serving()))
}

async fn candidate(Shared(app): Shared<App>) -> Response {
    let Some(candidate) = app.state.candidate.clone() else {
        let text =
            "there is no candidate: name the directory of a second chain with --candidate DIR\n";
        return (StatusCode::NOT_FOUND, text).into_response();
    };
    let slot = Arc::clone(&app.state.slot);
    // With many groups this takes a while, in which other tasks must go on.
    match spawn_blocking(move || candidate.answer(&slot)).await {
        Ok(answer) => as_json(&answer),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

fn as_json(body: &Value) -> Response {
    ([(CONTENT_TYPE, "application/json")], format!("{body:#}\n")).into_response()
}

async fn log(Shared(app): Shared<App>) -> String {
    format!("{}\n", app.log.show())
}

async fn change_log(Shared(app): Shared<App>, filter: String) -> Response {
    match app.log.change(&filter) {
        Ok(filter) => {
            tracing::info!(filter, "log filter changed");
            format!("{filter}\n").into_response()
        }
        Err(wrong) => (StatusCode::BAD_REQUEST, format!("{wrong}\n")).into_response(),
    }
}

fn not_found(uri: &Uri, endpoints: &str) -> Response {
    let text = format!("{} not found; the endpoints are\n\n{endpoints}", uri.path());
    (StatusCode::NOT_FOUND, text).into_response()
}

fn wrong_method(method: &Method, uri: &Uri, endpoints: &str) -> Response {
    let text = format!(
        "{} does not allow {method}; the endpoints are\n\n{endpoints}",
        uri.path()
    );
    (StatusCode::METHOD_NOT_ALLOWED, text).into_response()
}

/// Limits the time of a request, including a slow body.
async fn in_time(request: Request, next: Next) -> Response {
    // Other connections get their turn before the next request of a peer that pipelines many: one of them may be a probe.
    yield_now().await;
    match tokio::time::timeout(TIMEOUT, next.run(request)).await {
        Ok(response) => response,
        Err(_) => (StatusCode::REQUEST_TIMEOUT, "too slow\n").into_response(),
    }
}

/// Says where a request of a browser comes from: `same-origin`, `none` if a person typed the address, or another site's.
const FETCH_SITE: &str = "sec-fetch-site";

/// Only localhost may see and change what everybody in the cluster should not know: verbose logs, which also cost time, and names of
/// pods.
///
/// A request over kubectl port-forward comes from localhost, and so does one of a browser that a page of somebody else sends. So the
/// peer is not enough.
async fn only_here(peer: ConnectInfo<SocketAddr>, request: Request, next: Next) -> Response {
    let (path, headers) = (request.uri().path(), request.headers());
    let advice = if !is_here(peer.0.ip().to_canonical()) {
        format!("{path} answers only requests from localhost: use kubectl port-forward\n")
    } else if !is_by_own_name(headers) {
        format!(
            "{path} is at http://localhost, with the port of kubectl port-forward: other names are refused\n"
        )
    } else if !is_of_own_page(headers) {
        format!("{path} answers no pages of other sites\n")
    } else {
        return next.run(request).await;
    };
    (StatusCode::FORBIDDEN, advice).into_response()
}

/// Other loopback addresses belong to proxies in the pod, which pass on what comes from the cluster.
fn is_here(peer: IpAddr) -> bool {
    peer == Ipv4Addr::LOCALHOST || peer == Ipv6Addr::LOCALHOST
}

/// Whether a browser got here by a name of ours. The owner of another name can make it lead here, and then his pages are of the same
/// origin as ours.
fn is_by_own_name(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST) else {
        // Every browser sends it.
        return true;
    };
    let authority = host.to_str().ok().and_then(|host| host.parse().ok());
    authority.is_some_and(|authority: Authority| is_own(authority.host()))
}

/// Names that nobody else can make lead here.
fn is_own(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok()
}

/// Whether no page of another site sent it. What is not a browser says nothing.
fn is_of_own_page(headers: &HeaderMap) -> bool {
    let site = headers.get(FETCH_SITE);
    site.is_none_or(|site| site == "same-origin" || site == "none")
}

#[cfg(test)]
mod tests;

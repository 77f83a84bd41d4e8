//! What the operator serves over HTTP: probes, metrics, and what it says of itself.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Path, Request, State as Shared};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use jiff::Timestamp;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::task::yield_now;

use super::checks::{Check, alive, checks, checks_of, is_ready, show};
use super::connections::{Limits, Reuse, WhenFull};
use super::state::State;
use crate::log::Filter;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// A log filter is short, and nothing else has a body.
const BODY_BYTES: usize = 4096;

const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const ENDPOINTS: &str = "\
GET /healthz   whether the process works, or has to be restarted
GET /readyz    whether it is ready, a line for each check; /readyz/DUTY for one duty
GET /metrics   metrics, for Prometheus
GET /plugins   the chain that serves, as JSON
GET /log       what is logged (from this machine only)
PUT /log       log by another filter, as in info,podloom=debug (from this machine only)
";

const PROBES: &str = "\
GET /healthz   whether the process works, or has to be restarted
GET /readyz    whether it is ready, a line for each check; /readyz/DUTY for one duty
";

/// For scrapers, people and probes. An address that many peers share, such as that of a node, still has enough of them.
pub(super) const HTTP_LIMITS: Limits = Limits {
    connections: 256,
    of_one_peer: 16,
    when_full: WhenFull::RefuseNew,
    reuse: Reuse::Reused,
    header: Duration::from_secs(10),
    write: Duration::from_secs(5),
    life: Duration::from_secs(60),
};

/// For probes alone: one short answer for each connection, so that nobody can hold one for longer than the header's time,
/// and a silent peer only until a newer one needs its place.
pub(super) const PROBES_LIMITS: Limits = Limits {
    connections: 256,
    of_one_peer: 8,
    when_full: WhenFull::CloseOldestSilent,
    reuse: Reuse::Closed,
    header: Duration::from_secs(2),
    write: Duration::from_secs(2),
    life: Duration::from_secs(5),
};

/// What the endpoints show and change.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) state: Arc<State>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) log: Filter,
}

/// All endpoints. Each request carries the address of its peer, as [`ConnectInfo`].
pub(crate) fn router(app: App) -> Router {
    let router = probes_and_fallbacks(ENDPOINTS)
        .route("/metrics", get(metrics))
        .route("/plugins", get(plugins))
        .route("/log", get(log).put(change_log));
    limited(router, app)
}

/// The endpoints for probes, and nothing that takes longer to answer.
pub(crate) fn probes(app: App) -> Router {
    limited(probes_and_fallbacks(PROBES), app)
}

/// What both listeners serve, with what there is on this one for those who ask for something else.
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
        [] => "no duty is".to_owned(),
        names => format!("switched on: {}", names.join(", ")),
    };
    let text = format!("the duty {name:?} is not switched on by --controllers; {on}\n");
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

async fn metrics(Shared(app): Shared<App>) -> Response {
    let mut body = String::new();
    match text::encode(&mut body, &app.registry) {
        Ok(()) => ([(CONTENT_TYPE, METRICS_TYPE)], body).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

async fn plugins(Shared(app): Shared<App>) -> Response {
    let serving = app.state.slot.serving();
    let plugins: Vec<_> = serving
        .chain
        .iter()
        .flat_map(|chain| chain.plugins())
        .map(|plugin| {
            json!({
                "name": plugin.name,
                "version": plugin.description.version,
                "sha256": plugin.sha256,
                "file": plugin.file,
            })
        })
        .collect();
    let error = serving.failed.as_ref().map(|failed| {
        json!({
            "at": timestamp(failed.at),
            "reason": failed.error.reason(),
            "message": failed.error.to_string(),
        })
    });
    let body = json!({
        "chain": serving.chain.as_ref().map(|chain| chain.digest()),
        "plugins": plugins,
        "lastReload": serving.since.map(timestamp),
        "lastError": error,
    });
    ([(CONTENT_TYPE, "application/json")], format!("{body:#}\n")).into_response()
}

fn timestamp(time: SystemTime) -> Option<String> {
    Some(Timestamp::try_from(time).ok()?.to_string())
}

async fn log(Shared(app): Shared<App>, peer: ConnectInfo<SocketAddr>) -> Response {
    match from_here(&peer) {
        Ok(()) => format!("{}\n", app.log.show()).into_response(),
        Err(refused) => refused,
    }
}

async fn change_log(
    Shared(app): Shared<App>,
    peer: ConnectInfo<SocketAddr>,
    filter: String,
) -> Response {
    if let Err(refused) = from_here(&peer) {
        return refused;
    }
    match app.log.change(&filter) {
        Ok(filter) => {
            tracing::info!(filter, "log filter changed");
            format!("{filter}\n").into_response()
        }
        Err(wrong) => (StatusCode::BAD_REQUEST, format!("{wrong}\n")).into_response(),
    }
}

/// Logs may tell more than everybody in the cluster should know, and cost time.
#[expect(
    clippy::result_large_err,
    reason = "the error is the answer, and is passed on at once"
)]
fn from_here(peer: &ConnectInfo<SocketAddr>) -> Result<(), Response> {
    if peer.0.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    let advice =
        "the log is changed from this machine only: kubectl port-forward, then localhost\n";
    Err((StatusCode::FORBIDDEN, advice).into_response())
}

fn not_found(uri: &Uri, endpoints: &str) -> Response {
    let text = format!("there is no {}; there is\n\n{endpoints}", uri.path());
    (StatusCode::NOT_FOUND, text).into_response()
}

fn wrong_method(method: &Method, uri: &Uri, endpoints: &str) -> Response {
    let text = format!("{} takes no {method}; there is\n\n{endpoints}", uri.path());
    (StatusCode::METHOD_NOT_ALLOWED, text).into_response()
}

/// Who sends a body slower than this is not served.
async fn in_time(request: Request, next: Next) -> Response {
    // A peer that has sent many requests at once gets one answer, and then it is the turn of the others: probes among them.
    yield_now().await;
    match tokio::time::timeout(PATIENCE, next.run(request)).await {
        Ok(response) => response,
        Err(_) => (StatusCode::REQUEST_TIMEOUT, "too slow\n").into_response(),
    }
}

#[cfg(test)]
mod tests;

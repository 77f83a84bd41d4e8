//! The page at `/console`: what the operator does now, for people. It changes nothing and has no secrets, but names of pods, so only
//! localhost sees it.

mod listener;
mod samples;
mod snapshot;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request, State as Shared};
use axum::http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, RETRY_AFTER,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::sse::{KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use podloom_turns::lock;
use prometheus_client::registry::Registry;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use self::listener::Listener;
use super::here::from_here;
use crate::run::history::History;
use crate::run::state::OperatorState;

const PAGE: &str = include_str!("console/page.html");
const STYLE: &str = include_str!("console/style.css");
const SCRIPT: &str = include_str!("console/script.js");

/// How many pages get events at once. Half of the connections that one address may have, so that the other endpoints still answer.
const LISTENERS: usize = 8;
/// How often a page gets the state, if it has changed.
const PERIOD: Duration = Duration::from_secs(1);
/// How old a state may be that was made for another page.
const FRESH: Duration = Duration::from_millis(500);
/// How often something is sent if nothing changes, so that what is between notices a lost connection and not a silent one.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The page loads nothing but its own files, and nobody may embed it or its files.
const HEADERS: [(HeaderName, &str); 5] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (CACHE_CONTROL, "no-store"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// What the page shows, and who looks at it.
pub(super) struct Console {
    state: Arc<OperatorState>,
    registry: Arc<Registry>,
    history: Arc<History>,
    listeners: Arc<Semaphore>,
    /// The latest state that was made for any page.
    latest: Mutex<Option<(Instant, Arc<str>)>>,
}

impl Console {
    /// None if it is off.
    pub(super) fn of(state: &Arc<OperatorState>, registry: &Arc<Registry>) -> Option<Arc<Self>> {
        let history = Arc::clone(state.history.as_ref()?);
        Some(Arc::new(Self {
            state: Arc::clone(state),
            registry: Arc::clone(registry),
            history,
            listeners: Arc::new(Semaphore::new(LISTENERS)),
            latest: Mutex::default(),
        }))
    }

    /// The state as JSON. All pages share it, so many of them cost little more than one.
    fn latest(&self) -> Arc<str> {
        let mut latest = lock(&self.latest);
        if let Some((made, text)) = &*latest
            && made.elapsed() < FRESH
        {
            return Arc::clone(text);
        }
        let text: Arc<str> = snapshot::of(self).to_string().into();
        *latest = Some((Instant::now(), Arc::clone(&text)));
        text
    }
}

/// The page, its files and its events.
pub(super) fn routes<S>(console: Arc<Console>) -> Router<S> {
    Router::new()
        .route(
            "/console",
            get(async || file("text/html; charset=utf-8", PAGE)),
        )
        .route(
            "/console/style.css",
            get(async || file("text/css; charset=utf-8", STYLE)),
        )
        .route(
            "/console/script.js",
            get(async || file("text/javascript; charset=utf-8", SCRIPT)),
        )
        .route("/console/events", get(events))
        .layer(middleware::from_fn(guard))
        .with_state(console)
}

fn file(content_type: &'static str, text: &'static str) -> Response {
    ([(CONTENT_TYPE, content_type)], text).into_response()
}

async fn events(Shared(console): Shared<Arc<Console>>) -> Response {
    let Ok(place) = Arc::clone(&console.listeners).try_acquire_owned() else {
        let text = format!("{LISTENERS} pages listen already: close one\n");
        let wait = [(RETRY_AFTER, "10")];
        return (StatusCode::SERVICE_UNAVAILABLE, wait, text).into_response();
    };
    let events = Sse::new(Listener::new(console, place).events());
    // The next listener gets a connection of its own, which lives as long as it.
    let close = [(CONNECTION, "close")];
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    (close, events.keep_alive(keep_alive)).into_response()
}

/// Refuses others than localhost, and gives each answer its headers.
async fn guard(peer: ConnectInfo<SocketAddr>, request: Request, next: Next) -> Response {
    let mut response = match from_here(request.uri(), &peer, request.headers()) {
        Err(refused) => refused,
        Ok(()) => next.run(request).await,
    };
    for (name, value) in HEADERS {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}

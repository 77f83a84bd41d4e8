//! The page at `/console`: what the operator does now, for people. It changes nothing and has no secrets, but names of pods, so only
//! localhost sees it.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{ConnectInfo, Request, State as Shared};
use axum::http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, RETRY_AFTER,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, middleware};
use futures::stream::{self, Stream};
use podloom_mutators::{Chain, Plugin};
use podloom_turns::lock;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};

use super::{HTTP_LIMITS, only_here};
use crate::drift::Counts;
use crate::run::checks::{checks, is_ready};
use crate::run::history::{History, chain_state, timestamp};
use crate::run::state::{OperatorState, Role};

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
        let text: Arc<str> = snapshot(self).to_string().into();
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
    let mut response = only_here(peer, request, next).await;
    for (name, value) in HEADERS {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}

/// How much earlier the events end than their connection would. The page then connects again, with nothing cut off.
const MARGIN: Duration = Duration::from_secs(10);
/// How long the page waits before that.
const RETRY: Duration = Duration::from_secs(1);

/// One page that gets events.
struct Listener {
    console: Arc<Console>,
    ticks: Interval,
    end: Instant,
    /// What it got last.
    sent: Option<Arc<str>>,
    _place: OwnedSemaphorePermit,
}

impl Listener {
    fn new(console: Arc<Console>, place: OwnedSemaphorePermit) -> Self {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            console,
            ticks,
            end: Instant::now() + HTTP_LIMITS.life.saturating_sub(MARGIN),
            sent: None,
            _place: place,
        }
    }

    /// The state at once, and then whenever it has changed.
    fn events(self) -> impl Stream<Item = Result<Event, Infallible>> + Send + 'static {
        stream::unfold(self, async |mut listener| {
            let is_first = listener.sent.is_none();
            let state = listener.next().await?;
            let mut event = Event::default().data(&*state);
            if is_first {
                event = event.retry(RETRY);
            }
            Some((Ok(event), listener))
        })
    }

    /// None at the end, and as soon as the operator stops.
    async fn next(&mut self) -> Option<Arc<str>> {
        loop {
            tokio::select! {
                biased;
                () = self.console.state.stop.cancelled() => return None,
                () = sleep_until(self.end) => return None,
                _ = self.ticks.tick() => {}
            }
            let console = Arc::clone(&self.console);
            // Counting many objects takes a moment, in which other tasks must go on.
            let state = spawn_blocking(move || console.latest()).await.ok()?;
            if self.sent.as_ref() != Some(&state) {
                self.sent = Some(Arc::clone(&state));
                return Some(state);
            }
        }
    }
}

/// One line of a metric.
#[derive(Debug, PartialEq, Eq)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: String,
}

/// Reads the samples of the operator's own metrics with these names, as Prometheus does. What cannot be read is left out.
fn samples(registry: &Registry, names: &[&str]) -> Vec<Sample> {
    let mut page = String::new();
    if let Err(error) = text::encode(&mut page, registry) {
        tracing::warn!(%error, "could not read the metrics for the console");
    }
    let lines = page.lines().filter(|line| {
        let end = line.find(['{', ' ']).unwrap_or(line.len());
        line.get(..end).is_some_and(|name| names.contains(&name))
    });
    lines.filter_map(Sample::parse).collect()
}

/// The samples of one metric.
fn named<'s>(samples: &'s [Sample], name: &str) -> impl Iterator<Item = &'s Sample> {
    samples.iter().filter(move |sample| sample.name == name)
}

impl Sample {
    fn parse(line: &str) -> Option<Self> {
        let name_end = line.find(['{', ' '])?;
        let (name, mut rest) = line.split_at_checked(name_end)?;
        let mut labels = BTreeMap::new();
        if let Some(listed) = rest.strip_prefix('{') {
            rest = listed;
            while !rest.starts_with('}') {
                let (label, quoted) = rest.split_once("=\"")?;
                let (value, after) = unquoted(quoted)?;
                labels.insert(label.to_owned(), value);
                rest = after.strip_prefix(',').unwrap_or(after);
            }
            rest = rest.strip_prefix('}')?;
        }
        Some(Self {
            name: name.to_owned(),
            labels,
            value: rest.split_whitespace().next()?.to_owned(),
        })
    }

    /// The value of a label; empty if there is none.
    fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }

    /// The value of a counter, a bucket or a number of things.
    fn count(&self) -> u64 {
        self.value.parse().unwrap_or_default()
    }
}

/// A value up to its closing quotation mark, and what comes after that.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

const OBJECTS: &str = "podloom_objects";
const CALLS: &str = "podloom_plugin_call_duration_seconds_bucket";
const DRIFT: &str = "podloom_drift_pods";
const LOOKS: &str = "podloom_drift_looks_total";

/// How much text the paths of one list of grants may take, in bytes. The rest is only counted.
const GRANTS_BYTES: usize = 4096;
/// How many namespaces with drift are shown.
const NAMESPACES: usize = 10;

/// The state that the page shows, as JSON: names, versions, grants, paths and counts; no configuration and nothing of pods.
fn snapshot(console: &Console) -> Value {
    let (state, history) = (&console.state, &console.history);
    let samples = samples(&console.registry, &[OBJECTS, CALLS, DRIFT, LOOKS]);
    let serving = state.slot.serving();
    let chain = serving.chain.as_deref();
    let candidate = state.candidate.as_ref();
    let checks = checks(state);
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "replica": history.replica,
        "ready": is_ready(&checks),
        "checks": checks.iter().map(|check| json!({
            "name": check.name,
            "passed": check.result.is_ok(),
            "text": check.result.as_ref().unwrap_or_else(|reason| reason),
        })).collect::<Value>(),
        "needsChain": state.needs_chain(),
        "chain": {
            "digest": chain.map(Chain::digest),
            "since": serving.since.and_then(timestamp),
            "error": chain_state(&serving)["lastError"],
            "plugins": chain.into_iter().flat_map(Chain::plugins).map(plugin).collect::<Value>(),
        },
        "reloads": history.attempts(),
        "pods": history.pods.latest(),
        "latency": chain.map(|chain| latency(chain, &samples)).unwrap_or_default(),
        "objects": objects(state, &samples),
        "candidate": candidate.map(|candidate| candidate.answer(&state.slot)),
        "rollout": state.follower.as_ref().map(|follower| follower.shown()),
        "drift": drift(&samples),
    })
}

fn plugin(plugin: &Plugin) -> Value {
    json!({
        "name": plugin.name,
        "version": plugin.description.version,
        "sha256": plugin.sha256,
        "allow": paths(&plugin.allow),
        "read": paths(&plugin.read),
        "failurePolicy": plugin.failure_policy.as_str(),
    })
}

/// A plugin may have many paths, and long ones.
fn paths(paths: &[String]) -> Value {
    let mut room = GRANTS_BYTES;
    let shown = paths.iter().take_while(|path| {
        let left = room.checked_sub(path.len() + 1);
        room = left.unwrap_or_default();
        left.is_some()
    });
    let shown: Vec<&String> = shown.collect();
    json!({ "more": paths.len() - shown.len(), "paths": shown })
}

/// How many calls of each plugin took how long, since the operator started. Each bucket has the calls that took no longer than it, in
/// seconds, and longer than the one before; the last one has no limit.
fn latency(chain: &Chain, samples: &[Sample]) -> Value {
    let plugin = |plugin: &Plugin| {
        let calls = named(samples, CALLS);
        let calls = calls.filter(|bucket| bucket.label("plugin") == plugin.name);
        let mut before = 0;
        let buckets = calls.map(|bucket| {
            let calls = bucket.count().saturating_sub(before);
            before = bucket.count();
            json!({ "to": bucket.label("le").parse::<f64>().ok().filter(|to| to.is_finite()), "calls": calls })
        });
        json!({ "plugin": plugin.name, "buckets": buckets.collect::<Value>() })
    };
    chain.plugins().iter().map(plugin).collect()
}

/// The objects of each controller of an enabled duty by phase. Where another replica works, this one has none.
fn objects(state: &OperatorState, samples: &[Sample]) -> Value {
    let mut controllers: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for sample in named(samples, OBJECTS) {
        let phases = controllers.entry(sample.label("controller")).or_default();
        phases.push(json!({ "phase": sample.label("phase"), "count": sample.count() }));
    }
    let objects = controllers.into_iter().filter_map(|(controller, phases)| {
        let duty = state.duties.iter().find(|duty| {
            let mut kinds = duty.row.kinds.iter();
            kinds.any(|kind| kind.plural.strip_suffix('s') == Some(controller))
        });
        let works = matches!(*duty?.role.borrow(), Role::Leader | Role::Alone);
        Some(json!({ "controller": controller, "works": works, "phases": phases }))
    });
    objects.collect()
}

/// What the last look for drift has found; none if this operator never looks.
fn drift(samples: &[Sample]) -> Value {
    let looks: BTreeMap<&str, u64> = named(samples, LOOKS)
        .map(|looks| (looks.label("outcome"), looks.count()))
        .collect();
    if looks.is_empty() {
        return Value::Null;
    }
    let mut all = Counts::default();
    let mut namespaces: BTreeMap<&str, Counts> = BTreeMap::new();
    for sample in named(samples, DRIFT) {
        let namespace = namespaces.entry(sample.label("namespace")).or_default();
        for counts in [&mut all, namespace] {
            let count = match sample.label("result") {
                "missed" => &mut counts.missed,
                "changed" => &mut counts.changed,
                "ephemeral" => &mut counts.ephemeral,
                _ => &mut counts.older,
            };
            *count += sample.count();
        }
    }
    let mut namespaces: Vec<(&str, Counts)> = namespaces.into_iter().collect();
    namespaces.sort_by_key(|(_, counts)| Reverse(counts.rank()));
    let rows = namespaces.iter().take(NAMESPACES).map(|(name, counts)| {
        let mut row = json!(counts);
        row["namespace"] = json!(name);
        row
    });
    json!({
        "looks": looks,
        "all": all,
        "namespaces": rows.collect::<Value>(),
        "moreNamespaces": namespaces.len().saturating_sub(NAMESPACES),
    })
}

#[cfg(test)]
mod tests;

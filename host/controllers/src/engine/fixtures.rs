//! Fixtures for tests of controllers: a kind, and API servers that always give one answer, or follow a script.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, future};
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use kube::core::{ApiResource, GroupVersionKind, Object};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use super::backoff::Backoff;
use super::blocking::BlockingThreads;
use super::clock::Clock;
use super::events::{self, Events};
use super::kind::{Context, Kind};
use super::metrics::EngineMetrics;
use super::namespaces::UnreadNamespaces;
use super::pass::Passes;
use super::permits::PassPermits;
use super::queue::Queue;
use super::unreadable::Reported;

/// A kind for tests.
pub(crate) type Lamp = Object<LampSpec, LampStatus>;

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LampSpec {
    pub(crate) light_color: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LampStatus {
    pub(crate) phase: LampPhase,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) enum LampPhase {
    Lit,
    #[default]
    Dark,
}

/// The resource of lamps.
pub(crate) fn lamps() -> Arc<ApiResource> {
    let kind = GroupVersionKind::gvk("example.com", "v1", "Lamp");
    Arc::new(ApiResource::from_gvk_with_plural(&kind, "lamps"))
}

/// A lamp; its UID is its name.
pub(crate) fn lamp(namespace: &str, name: &str, generation: i64) -> Lamp {
    let lamp = json!({
        "metadata": { "name": name, "namespace": namespace, "uid": name, "generation": generation },
        "spec": { "lightColor": "red" },
    });
    serde_json::from_value(lamp).unwrap()
}

/// Passes without watches, with all caches filled.
pub(crate) fn alone<K: Kind>(kind: Arc<K>, resource: &Arc<ApiResource>, ctx: Context) -> Passes<K> {
    let caches: Shared<BoxFuture<'static, ()>> = future::ready(()).boxed().shared();
    Passes {
        kind,
        resource: Arc::clone(resource),
        ctx: Arc::new(ctx),
        caches,
        queue: Queue::new(Gauge::default()),
        permits: PassPermits::new(usize::MAX, usize::MAX).0,
        resync: std::time::Duration::from_mins(10),
        backoff: Backoff::new(K::TRAITS.backoff),
        recent: Arc::default(),
        reported: Reported::default(),
    }
}

/// The requests that a client sent.
#[derive(Clone, Default)]
pub(crate) struct Requests(Arc<Mutex<Vec<String>>>);

impl Requests {
    pub(crate) fn made(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// How often each method and path was asked for.
    pub(crate) fn counted(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for request in self.made() {
            *counts.entry(request).or_default() += 1;
        }
        counts
    }

    fn note(&self, method: &Method, path: &str) {
        self.0.lock().unwrap().push(format!("{method} {path}"));
    }
}

/// A client of an API server that always gives this answer, and its requests.
pub(crate) fn client(code: u16, answer: Value) -> (Client, Requests) {
    let requests = Requests::default();
    let noted = requests.clone();
    let service = service_fn(move |request: Request<Body>| {
        noted.note(request.method(), request.uri().path());
        let body = serde_json::to_vec(&answer).map(Body::from);
        async move {
            let response = Response::builder().status(code).body(body?)?;
            Ok::<_, BoxError>(response)
        }
    });
    (Client::new(service, "default"), requests)
}

/// A client of an API server whose answer depends on the request, `METHOD /path`, and its body; and its requests.
pub(crate) fn scripted(
    answer: impl Fn(&str, Value) -> (u16, Value) + Send + Sync + 'static,
) -> (Client, Requests) {
    let requests = Requests::default();
    let noted = requests.clone();
    let answer = Arc::new(answer);
    let service = service_fn(move |request: Request<Body>| {
        noted.note(request.method(), request.uri().path());
        let answer = Arc::clone(&answer);
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
            let (code, answer) = answer(&format!("{} {}", parts.method, parts.uri.path()), body);
            if code == SILENCE {
                future::pending::<()>().await;
            }
            let text = match answer {
                Value::String(text) => text.into_bytes(),
                json => serde_json::to_vec(&json)?,
            };
            let response = Response::builder().status(code).body(Body::from(text))?;
            Ok::<_, BoxError>(response)
        }
    });
    (Client::new(service, "default"), requests)
}

/// How an API server fails.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Broken {
    /// It refuses connections.
    Down,
    /// It answers every request with this code.
    Answers(u16),
    /// Its lists are empty, and it answers every watch with this code.
    Watches(u16),
    /// Its lists are empty, and each watch ends at once.
    Ends,
}

impl Broken {
    pub(crate) const ALL: [Self; 10] = [
        Self::Ends,
        Self::Down,
        Self::Answers(403),
        Self::Answers(404),
        Self::Answers(429),
        Self::Answers(500),
        Self::Watches(403),
        Self::Watches(404),
        Self::Watches(429),
        Self::Watches(500),
    ];

    fn answer(self, is_watch: bool) -> Result<(u16, Value), BoxError> {
        let list = json!({ "metadata": { "resourceVersion": "1" }, "items": [] });
        match self {
            Self::Down => Err(io::Error::from(io::ErrorKind::ConnectionRefused).into()),
            Self::Watches(_) | Self::Ends if !is_watch => Ok((200, list)),
            Self::Ends => Ok((200, Value::Null)),
            Self::Answers(code) | Self::Watches(code) => Ok((code, failure(code))),
        }
    }
}

/// A client of an API server that fails, and its requests.
pub(crate) fn broken(how: Broken) -> (Client, Requests) {
    let requests = Requests::default();
    let noted = requests.clone();
    let service = service_fn(move |request: Request<Body>| {
        noted.note(request.method(), request.uri().path());
        let query = request.uri().query().unwrap_or_default();
        let answer = how.answer(query.contains("watch=true"));
        async move {
            let (code, answer) = answer?;
            let text = match answer {
                Value::Null => Vec::new(),
                answer => serde_json::to_vec(&answer)?,
            };
            let body = Body::from(text);
            Ok::<_, BoxError>(Response::builder().status(code).body(body)?)
        }
    });
    (Client::new(service, "default"), requests)
}

/// The status of an answer that never comes.
pub(crate) const SILENCE: u16 = 0;

/// An error response.
pub(crate) fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({ "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message })
}

/// An error response with the reason that an API server gives.
pub(crate) fn failure(code: u16) -> Value {
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    status(code, reason, "it fails")
}

pub(crate) fn context(client: Client) -> Context {
    let mut registry = Registry::default();
    let metrics = events::metrics(&mut registry);
    let (events, _unsent) = Events::new(&client, None, "Reconcile", metrics);
    Context {
        client,
        events,
        clock: Clock::new(),
        metrics: EngineMetrics::collected(&mut registry),
        blocking: BlockingThreads::new(),
        unread_namespaces: UnreadNamespaces::Refused,
    }
}

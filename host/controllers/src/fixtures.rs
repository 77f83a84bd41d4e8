//! What tests of controllers run against: an API server that gives one answer to everything, or answers as a script says.

use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use futures::{FutureExt, future};
use http::{Method, Request, Response};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::client::Body;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use crate::drive::Context;
use crate::events::Events;
use crate::mutator::{MutatedPod, PodMutator, PodRequest, Refusal};
use crate::{Clock, ControllerMetrics, Timeouts};

/// The requests that were made.
#[derive(Clone, Default)]
pub(crate) struct Requests(Arc<Mutex<Vec<String>>>);

impl Requests {
    pub(crate) fn made(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn note(&self, method: &Method, path: &str) {
        self.0.lock().unwrap().push(format!("{method} {path}"));
    }
}

/// A client of an API server that answers so, and what it was asked.
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

/// A client of an API server that answers each request, `METHOD /path`, and its body so, and what it was asked.
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

/// The status of an answer that never comes.
pub(crate) const SILENCE: u16 = 0;

/// An answer that refuses.
pub(crate) fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({ "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message })
}

pub(crate) fn context(client: Client) -> Context {
    let metrics = ControllerMetrics::register(&mut Registry::default());
    let (events, _unsent) = Events::new(&client, None, "Reconcile", metrics.events.clone());
    Context {
        client,
        mutator: Arc::new(Untouched),
        events,
        timeouts: Timeouts::default(),
        clock: Clock::new(),
        metrics,
    }
}

/// A chain without plugins.
pub(crate) struct Untouched;

impl PodMutator for Untouched {
    fn mutate(&self, pod: &Pod, _: PodRequest) -> BoxFuture<'_, Result<MutatedPod, Refusal>> {
        let pod = serde_json::to_value(pod).unwrap();
        let notes = Vec::new();
        async move { Ok(MutatedPod { pod, notes }) }.boxed()
    }
}

//! Counts the requests to the API server, and notices answers that may mean a missing kind or right.

use std::fmt;

use axum::http::{Method, Request, StatusCode};
use futures::future;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

/// Counts the requests of all clients; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Requests {
    total: Family<Labels, Counter>,
    /// How many answers may mean a missing kind or right. Preflight waits for it to grow.
    access_failures: watch::Sender<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    verb: &'static str,
    code: Code,
}

/// The status code of an answer; none without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Code(Option<StatusCode>);

/// Answers, from some moment on, that may mean a missing kind or right.
pub(crate) struct AccessFailures(watch::Receiver<u64>);

/// A request without an answer so far. It is counted when it is answered or dropped.
pub(crate) struct PendingRequest {
    requests: Requests,
    labels: Labels,
}

impl Requests {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let requests = Self::default();
        registry.register(
            "api_requests",
            "Requests to the API server by verb and status code, each retry counted; code is none for a request without an answer",
            requests.total.clone(),
        );
        requests
    }

    /// Starts to count a request that is sent now.
    pub(crate) fn begin<B>(&self, request: &Request<B>) -> PendingRequest {
        PendingRequest {
            requests: self.clone(),
            labels: Labels {
                verb: verb(request),
                code: Code(None),
            },
        }
    }

    /// Follows answers from now on that may mean a missing kind or right.
    pub(crate) fn access_failures(&self) -> AccessFailures {
        AccessFailures(self.access_failures.subscribe())
    }
}

impl AccessFailures {
    /// Waits for an answer that may mean a missing kind or right. Returns at once if there was one since the last call.
    pub(crate) async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            // No client is left, so there are no more answers.
            future::pending::<()>().await;
        }
    }
}

impl PendingRequest {
    pub(crate) fn answered(mut self, code: StatusCode) {
        self.labels.code = Code(Some(code));
        if is_access_failure(self.labels.verb, code) {
            let failures = &self.requests.access_failures;
            failures.send_modify(|failures| *failures += 1);
        }
    }
}

/// Whether an answer may mean a missing kind or right.
fn is_access_failure(verb: &str, code: StatusCode) -> bool {
    match code {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => true,
        // The start of a watch expired, or the API server is overloaded: neither says anything about kinds or rights.
        StatusCode::GONE
        | StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => false,
        // A single object may be missing, that is normal. A list or watch fails only if something is wrong with its kind: it is not
        // served, its conversion fails, or it has another scope.
        _ => matches!(verb, "list" | "watch") && (code.is_client_error() || code.is_server_error()),
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        self.requests.total.get_or_create(&self.labels).inc();
    }
}

impl EncodeLabelValue for Code {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        match self.0 {
            Some(code) => code.as_u16().encode(encoder),
            None => "none".encode(encoder),
        }
    }
}

/// The Kubernetes verb of a request. kube notes on each request which of its methods created it; other requests get the verb of their
/// HTTP method.
fn verb<B>(request: &Request<B>) -> &'static str {
    let name = request.extensions().get::<&'static str>();
    let method = name.and_then(|name| name.split('_').next());
    match (method, request.method()) {
        (Some("list"), _) => "list",
        (Some("watch"), _) => "watch",
        (_, &Method::GET) => "get",
        (_, &Method::POST) => "create",
        (_, &Method::PUT) => "update",
        (_, &Method::PATCH) => "patch",
        (_, &Method::DELETE) => "delete",
        _ => "other",
    }
}

#[cfg(test)]
mod tests;

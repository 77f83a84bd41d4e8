//! What is asked of the API server, counted, and whether it refused what we need.

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
pub(super) struct Requests {
    total: Family<Labels, Counter>,
    /// How many refusals there were; those who wait for one follow it.
    refused: watch::Sender<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    verb: &'static str,
    code: Code,
}

/// The status of an answer, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Code(Option<StatusCode>);

/// What the API server refuses from some moment on.
pub(super) struct Refusals(watch::Receiver<u64>);

/// A request that counts when it is answered, or when this is dropped.
pub(super) struct Begun {
    requests: Requests,
    labels: Labels,
}

impl Requests {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let requests = Self::default();
        registry.register(
            "api_requests",
            "Requests to the API server by verb and status code, retries counted one by one; the code is none if no answer came",
            requests.total.clone(),
        );
        requests
    }

    /// A request that is sent now.
    pub(super) fn begin<B>(&self, request: &Request<B>) -> Begun {
        Begun {
            requests: self.clone(),
            labels: Labels {
                verb: verb(request),
                code: Code(None),
            },
        }
    }

    /// What is refused from now on, for one who looks what is missing.
    pub(super) fn refusals(&self) -> Refusals {
        Refusals(self.refused.subscribe())
    }
}

impl Refusals {
    /// Waits until the API server has refused something: a right or a kind may be missing.
    ///
    /// What was refused since the last call is known at once.
    pub(super) async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            // Nobody sends requests any more, so none is refused.
            future::pending::<()>().await;
        }
    }
}

impl Begun {
    pub(super) fn answered(mut self, code: StatusCode) {
        self.labels.code = Code(Some(code));
        if is_refusal(self.labels.verb, code) {
            self.requests.refused.send_modify(|refused| *refused += 1);
        }
    }
}

/// Whether an answer may come of a missing right or kind.
fn is_refusal(verb: &str, code: StatusCode) -> bool {
    match code {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => true,
        // Where a watch began is forgotten after a while, and a busy API server puts off: neither says anything of rights or kinds.
        StatusCode::GONE
        | StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => false,
        // An object that is not found is nothing unusual; a list or watch finds its kind, or the kind is not served. If one fails
        // otherwise, something is wrong with the kind: its conversion breaks, or it is not what we take it for.
        _ => matches!(verb, "list" | "watch") && (code.is_client_error() || code.is_server_error()),
    }
}

impl Drop for Begun {
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

/// The verb as Kubernetes has it. kube writes on each request which of its methods made it; what is made by hand has the verb of
/// its HTTP method.
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

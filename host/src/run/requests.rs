//! What is asked of the API server, counted, and whether it refused what we need.

use std::fmt;
use std::sync::Arc;

use axum::http::{Method, Request, StatusCode};
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::sync::Notify;

/// Counts the requests of all clients; cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Requests {
    total: Family<Labels, Counter>,
    refused: Arc<Notify>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    verb: &'static str,
    code: Code,
}

/// The status of an answer, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Code(Option<StatusCode>);

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

    /// Waits until the API server has refused something: a right or a kind may be missing.
    ///
    /// What was refused since the last call is known at once.
    pub(super) async fn refused(&self) {
        self.refused.notified().await;
    }
}

impl Begun {
    pub(super) fn answered(mut self, code: StatusCode) {
        self.labels.code = Code(Some(code));
        // An object that is not found is nothing unusual; a list or watch finds its kind, or the kind is not served.
        let is_kind_gone =
            code == StatusCode::NOT_FOUND && matches!(self.labels.verb, "list" | "watch");
        let is_denied = matches!(code, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if is_denied || is_kind_gone {
            self.requests.refused.notify_one();
        }
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

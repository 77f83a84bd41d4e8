//! Asks the API server of a cluster whether it answers.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use hyper::body::Bytes;
use podloom_engine::outbound::{
    Client, OutboundMetrics, Policy, Request, RequestErrorKind, RequestLimits, Resolve, Response,
    Settings,
};
use serde_json::Value;

use super::{Access, Kubeconfig};
use crate::im::ImRules;

const LIMITS: RequestLimits = RequestLimits {
    permit_timeout: Duration::from_secs(2),
    connect_timeout: Duration::from_secs(5),
    total_timeout: Duration::from_secs(5),
    request_bytes: 0,
    head_bytes: 32 * 1024,
    response_bytes: 64 * 1024,
    concurrency: 32,
    concurrency_per_host: 4,
};

/// Asks the API servers of clusters.
pub(crate) struct Prober {
    client: Client,
}

/// What a probe found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Probed {
    /// The API server answers.
    Answers,
    /// It does not; why, as a sentence.
    Fails(String),
    /// Too many other probes are running.
    Busy,
}

impl Prober {
    /// Returns a prober. It asks nobody yet. Users choose whom it asks, so loopback and link-local addresses are blocked unless the
    /// rules allow them.
    pub(crate) fn new(
        rules: &ImRules,
        resolver: Arc<dyn Resolve>,
        metrics: OutboundMetrics,
    ) -> Self {
        let settings = Settings {
            system: "cluster",
            rules: rules.with(Policy::NotLocal),
            limits: LIMITS,
        };
        Self {
            client: Client::new(settings, resolver, metrics),
        }
    }

    /// Asks once, on behalf of a namespace.
    pub(crate) async fn probe(&self, kubeconfig: &Kubeconfig, namespace: &str) -> Probed {
        match self.ask(&kubeconfig.access, namespace).await {
            Ok(probed) => probed,
            Err(why) => Probed::Fails(format!("the API server cannot be asked: {why}")),
        }
    }

    async fn ask(&self, access: &Access, namespace: &str) -> Result<Probed, &'static str> {
        let address = access.address()?;
        let tls = access
            .tls()
            .map_err(|_| "its certificates cannot be used")?;
        let request = Request {
            operation: "version",
            method: Method::GET,
            url: &address.url,
            via: address.via.as_ref(),
            headers: access.headers()?,
            body: Bytes::new(),
            tenant: namespace,
            tls: &tls,
            total_timeout: None,
        };
        Ok(match self.client.send(request).await {
            Ok(response) => answered(&response),
            Err(error) if matches!(error.kind, RequestErrorKind::Busy { .. }) => Probed::Busy,
            Err(error) => Probed::Fails(format!(
                "the API server does not answer: {}",
                error.kind.summary()
            )),
        })
    }
}

fn answered(response: &Response) -> Probed {
    if response.status != StatusCode::OK {
        let status = response.status.as_u16();
        return Probed::Fails(format!("the API server answers with HTTP {status}"));
    }
    // Every API server says it of itself.
    let said: Value = serde_json::from_slice(&response.body).unwrap_or_default();
    match said["gitVersion"].is_string() {
        true => Probed::Answers,
        false => Probed::Fails("what answers is no API server".to_owned()),
    }
}

//! Sends steps in the background, in OTLP over HTTP with JSON.

use std::future::pending;
use std::mem::{replace, take};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail};
use axum::http::header::CONTENT_TYPE;
use axum::http::uri::Scheme;
use axum::http::{HeaderMap, Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use podloom_engine::outbound::{Pem, Roots, Tls};
use podloom_engine::sent::{SendMetrics, SendOutcome};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::mpsc::Receiver;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{Step, environment};
use crate::conventions;

/// How many steps a request has.
const BATCH: usize = 512;
/// How long steps wait for others to be sent with.
const PAUSE: Duration = Duration::from_secs(1);
/// The same after a failure.
const AFTER_FAILURE: Duration = Duration::from_secs(5);
/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long the last ones may take together, when the operator stops.
const LAST: Duration = Duration::from_secs(1);
/// How much of an answer is read.
const ANSWER: usize = 64 << 10;

/// Sends steps to a receiver.
pub(crate) struct Exporter {
    pub(super) endpoint: Uri,
    pub(super) http: Http,
    /// Of each request. They may be secret.
    pub(super) headers: HeaderMap,
    pub(super) queue: Receiver<Step>,
    pub(super) metrics: SendMetrics,
}

impl Exporter {
    /// Registers what is counted. Call it once.
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "trace_spans",
            "Spans of traces by outcome; those that do not fit into the queue are dropped",
            self.metrics.clone(),
        );
    }

    /// Sends what comes, a second later at most, until `stop` is cancelled. Then it sends what is left, if the receiver is quick.
    ///
    /// `instance` is the name of the operator's pod.
    pub(crate) async fn run(mut self, instance: Option<String>, stop: CancellationToken) {
        let over = async {
            stop.cancelled().await;
            sleep(LAST).await;
        };
        tokio::select! {
            () = self.send_all(instance.as_deref(), &stop) => {}
            () = over => {}
        }
    }

    /// Ends when `stop` is cancelled and nothing is left, or the receiver takes nothing more.
    async fn send_all(&mut self, instance: Option<&str>, stop: &CancellationToken) {
        let mut batch = Vec::with_capacity(BATCH);
        let (mut is_failing, mut is_rejecting) = (false, false);
        loop {
            tokio::select! {
                () = self.gather(&mut batch, is_failing) => {}
                () = stop.cancelled() => self.take(&mut batch),
            }
            if batch.is_empty() {
                return;
            }
            let sending = self.send(&batch, instance);
            let sent = in_time(TIMEOUT, sending).await;
            match sent {
                Ok(rejected) => {
                    self.taken(batch.len(), rejected, &mut is_failing, &mut is_rejecting);
                }
                Err(error) => self.failed(batch.len(), &error, &mut is_failing),
            }
            if is_failing && stop.is_cancelled() {
                return;
            }
            batch.clear();
        }
    }

    async fn send(&self, batch: &[Step], instance: Option<&str>) -> Result<Rejected> {
        let mut request = Request::post(&self.endpoint)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::from(body(batch, instance)))?;
        request.headers_mut().extend(self.headers.clone());
        let answer = self.http.request(request).await.context("no connection")?;
        let status = answer.status();
        // The connection is used again only if the answer was read.
        let read = Limited::new(answer.into_body(), ANSWER).collect().await;
        if !status.is_success() {
            bail!("it answered {status}");
        }
        read.map(|read| rejected(&read.to_bytes()))
            .map_err(|error| anyhow!("it broke off its answer: {error}"))
    }

    /// Waits until a request is full, or until its first step has waited for others to be sent with.
    pub(super) async fn gather(&mut self, batch: &mut Vec<Step>, is_failing: bool) {
        if is_failing {
            // To look up the name of a receiver may hold a thread for long, so those attempts are rare.
            sleep(AFTER_FAILURE).await;
        }
        if self.queue.recv_many(batch, BATCH).await == 0 {
            // Nobody makes steps any more; only tests get here.
            pending::<()>().await;
        }
        let full = async {
            while batch.len() < BATCH && self.queue.recv_many(batch, BATCH - batch.len()).await > 0
            {
            }
        };
        // What has come until then is sent.
        let _ = timeout(PAUSE, full).await;
    }

    /// Adds what is in the queue, up to the length of a request.
    fn take(&mut self, batch: &mut Vec<Step>) {
        while batch.len() < BATCH
            && let Ok(step) = self.queue.try_recv()
        {
            batch.push(step);
        }
    }

    /// Counts a request that the receiver answered, and logs when it takes steps again, and when it begins to reject some of them.
    fn taken(
        &self,
        spans: usize,
        rejected: Rejected,
        is_failing: &mut bool,
        is_rejecting: &mut bool,
    ) {
        let endpoint = &self.endpoint;
        let Rejected { spans: lost, why } = rejected;
        let lost = lost.min(spans);
        self.metrics.count(SendOutcome::Sent, spans - lost);
        self.metrics.count(SendOutcome::Failed, lost);
        if take(is_failing) {
            tracing::info!(url = %endpoint, "the receiver takes traces again");
        }
        if !replace(is_rejecting, lost > 0) && lost > 0 {
            tracing::warn!(url = %endpoint, spans = lost, why, "the receiver rejects some of the spans");
        }
    }

    /// Counts a request that failed, and logs the first of several.
    fn failed(&self, spans: usize, error: &anyhow::Error, is_failing: &mut bool) {
        let endpoint = &self.endpoint;
        self.metrics.count(SendOutcome::Failed, spans);
        if !replace(is_failing, true) {
            let error = format!("{error:#}");
            tracing::warn!(url = %endpoint, error, "the receiver does not take traces");
        }
    }
}

/// Sends requests, also with TLS.
pub(super) type Http = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Creates a client for a receiver, whose certificate must be of an authority of the machine or of this file.
///
/// # Errors
///
/// Why there is no TLS.
pub(super) fn client(endpoint: &Uri, authorities: Option<&Path>) -> Result<Http, String> {
    let mut connector = HttpConnector::new();
    connector.set_connect_timeout(Some(TIMEOUT));
    connector.enforce_http(false);
    let is_https = endpoint.scheme() == Some(&Scheme::HTTPS);
    let added = authorities.filter(|_| is_https).map(Pem::read);
    let added = added.transpose().map_err(|error| error.to_string())?;
    let roots = match (is_https, &added) {
        // Nothing is checked where there is no TLS.
        (false, _) => Roots::Unchecked,
        (true, None) => Roots::Public,
        (true, Some(pem)) => Roots::PublicAnd(pem),
    };
    let tls = Tls::new(&roots, None).map_err(|error| error.to_string())?;
    Ok(Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .build(HttpsConnector::from((connector, tls.config()))))
}

async fn in_time(
    limit: Duration,
    sending: impl Future<Output = Result<Rejected>>,
) -> Result<Rejected> {
    let sent = timeout(limit, sending).await;
    sent.map_err(|_| anyhow!("no answer within {limit:?}"))?
}

/// How many characters of a receiver's reason are logged.
const WHY: usize = 200;

/// The body of a request with these steps, by this process.
pub(super) fn body(steps: &[Step], instance: Option<&str>) -> Vec<u8> {
    let resource = environment::resource(instance);
    let resource: Vec<Value> = resource
        .iter()
        .map(|(key, value)| attribute(key, &text(value)))
        .collect();
    let spans: Vec<Value> = steps.iter().map(span).collect();
    let body = json!({ "resourceSpans": [{
        "resource": { "attributes": resource },
        "scopeSpans": [{
            "scope": { "name": "podloom", "version": env!("CARGO_PKG_VERSION") },
            "spans": spans,
        }],
    }] });
    body.to_string().into_bytes()
}

/// What a receiver did not take of a request that it answered with success.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rejected {
    /// How many spans.
    pub(super) spans: usize,
    /// What it says about them, in one line.
    pub(super) why: String,
}

/// Reads the answer of a receiver; an answer that is no JSON, as of those that only speak protobuf, rejects nothing.
pub(super) fn rejected(answer: &[u8]) -> Rejected {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let partial = &answer["partialSuccess"];
    let count = &partial["rejectedSpans"];
    // 64-bit numbers are texts in this format, but not every sender cares.
    let spans = count.as_str().and_then(|count| count.parse().ok());
    let spans = spans.or_else(|| count.as_u64()?.try_into().ok());
    let why = partial["errorMessage"].as_str().unwrap_or_default();
    let why = why.chars().filter(|letter| !letter.is_control());
    Rejected {
        spans: spans.unwrap_or(0),
        why: why.take(WHY).collect(),
    }
}

fn span(step: &Step) -> Value {
    let fields = step.fields.iter();
    let attributes = fields.map(|(name, value)| {
        let value = match value {
            Value::String(value) => text(value),
            Value::Bool(value) => json!({ "boolValue": value }),
            // 64-bit numbers are texts in this format.
            number => json!({ "intValue": number.to_string() }),
        };
        attribute(&conventions::name(name), &value)
    });
    let error = step.error.as_deref();
    let error = error.map(|error| attribute("error.type", &text(error)));
    let attributes: Vec<Value> = attributes.chain(error).collect();
    let status = match &step.error {
        Some(error) => json!({ "code": 2, "message": error }),
        None => json!({}),
    };
    json!({
        "traceId": format!("{:032x}", step.trace),
        "spanId": id(step.id),
        "parentSpanId": step.parent.map(id).unwrap_or_default(),
        "name": step.name,
        // Internal: neither the client nor the server of a request.
        "kind": 1,
        "startTimeUnixNano": nanoseconds(step.start),
        "endTimeUnixNano": nanoseconds(step.end),
        "attributes": attributes,
        "status": status,
    })
}

fn id(id: u64) -> String {
    format!("{id:016x}")
}

fn nanoseconds(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos().to_string()
}

fn text(value: &str) -> Value {
    json!({ "stringValue": value })
}

fn attribute(key: &str, value: &Value) -> Value {
    json!({ "key": key, "value": value })
}

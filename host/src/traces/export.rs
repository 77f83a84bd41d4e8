//! Sends steps in the background.

use std::future::pending;
use std::mem::{replace, take};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use axum::http::Request;
use axum::http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use podloom_controllers::{SendMetrics, SendOutcome};
use prometheus_client::registry::Registry;
use tokio::sync::mpsc::Receiver;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::otlp::{Endpoint, Rejected, body, rejected};
use super::step::Step;

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
    pub(super) endpoint: Arc<Endpoint>,
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
        let http = client();
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
            let sending = send(&http, &self.endpoint, &batch, instance);
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
        let endpoint = &self.endpoint.0;
        let Rejected { spans: lost, why } = rejected;
        let lost = lost.min(spans);
        self.metrics.count(SendOutcome::Sent, spans - lost);
        self.metrics.count(SendOutcome::Failed, lost);
        if take(is_failing) {
            tracing::info!(%endpoint, "the receiver takes traces again");
        }
        if !replace(is_rejecting, lost > 0) && lost > 0 {
            tracing::warn!(%endpoint, spans = lost, why, "the receiver rejects some of the spans");
        }
    }

    /// Counts a request that failed, and logs the first of several.
    fn failed(&self, spans: usize, error: &anyhow::Error, is_failing: &mut bool) {
        let endpoint = &self.endpoint.0;
        self.metrics.count(SendOutcome::Failed, spans);
        if !replace(is_failing, true) {
            let error = format!("{error:#}");
            tracing::warn!(%endpoint, error, "the receiver does not take traces");
        }
    }
}

type Http = Client<HttpConnector, Full<Bytes>>;

fn client() -> Http {
    let mut connector = HttpConnector::new();
    connector.set_connect_timeout(Some(TIMEOUT));
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .build(connector)
}

async fn in_time(
    limit: Duration,
    sending: impl Future<Output = Result<Rejected>>,
) -> Result<Rejected> {
    let sent = timeout(limit, sending).await;
    sent.map_err(|_| anyhow!("no answer within {limit:?}"))?
}

async fn send(
    http: &Http,
    endpoint: &Endpoint,
    batch: &[Step],
    instance: Option<&str>,
) -> Result<Rejected> {
    let request = Request::post(&endpoint.0)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::from(body(batch, instance)))?;
    let answer = http.request(request).await.context("no connection")?;
    let status = answer.status();
    // The connection is used again only if the answer was read.
    let read = Limited::new(answer.into_body(), ANSWER).collect().await;
    if !status.is_success() {
        bail!("it answered {status}");
    }
    read.map(|read| rejected(&read.to_bytes()))
        .map_err(|error| anyhow!("it broke off its answer: {error}"))
}

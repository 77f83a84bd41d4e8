//! Sends calls to IM, with the client of `outbound`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use hyper::body::Bytes;
use podloom_engine::outbound::{
    Cidr, Client, OutboundMetrics, Policy, Request, RequestLimits, Resolve, Response, Rules,
    Settings, Url,
};
use podloom_metrics::{By, Histograms, metrics};
use prometheus_client::metrics::histogram::Histogram;

use super::answer::Answer;
use super::call::Call;
use super::failure::{Failure, FailureKind, Sent};
use super::target::{Target, authorization};
use super::words::Mask;
use super::{InfrastructureManager, words};

const LIMITS: RequestLimits = RequestLimits {
    // What finds no room is tried again in a later pass, and holds no worker until then.
    permit_timeout: Duration::from_secs(2),
    connect_timeout: Duration::from_secs(5),
    total_timeout: Duration::from_secs(30),
    // A template has at most 256 KiB, nodes without machines may be as much again, and a character may take six bytes.
    request_bytes: 4 * 1024 * 1024,
    head_bytes: 32 * 1024,
    response_bytes: 1024 * 1024,
    concurrency: 64,
    concurrency_per_host: 4,
};

/// The longest header `Authorization`, in bytes. IM's server accepts no longer ones.
const LOGIN_MAX: usize = 64 * 1024;

/// Which addresses Infrastructure Managers may have, beside those that anybody may ask.
#[derive(Clone, Debug, Default)]
pub(crate) struct ImRules {
    /// Exceptions: which of the blocked addresses are allowed.
    pub(crate) allow: Vec<Cidr>,
    /// Which addresses are blocked in spite of that.
    pub(crate) deny: Vec<Cidr>,
}

impl ImRules {
    /// Returns the rules with what may be asked apart from the exceptions.
    pub(crate) fn with(&self, policy: Policy) -> Rules {
        Rules {
            policy,
            allow: self.allow.clone(),
            deny: self.deny.clone(),
            flag: "--im-allow-cidr",
        }
    }
}

/// Sends calls. Each has a connection of its own: IM closes a connection after an error, and a kept one would then lose a request.
pub(crate) struct ImClient {
    /// For providers that users wrote.
    of_users: Client,
    /// For providers that administrators of the cluster wrote.
    of_administrators: Client,
    metrics: ImMetrics,
}

impl ImClient {
    /// Returns a client. It sends no request yet.
    pub(crate) fn new(rules: &ImRules, resolver: &Arc<dyn Resolve>, metrics: ImMetrics) -> Self {
        let client = |policy| {
            let settings = Settings {
                system: "im",
                rules: rules.with(policy),
                limits: LIMITS,
            };
            Client::new(settings, Arc::clone(resolver), metrics.outbound.clone())
        };
        Self {
            of_users: client(Policy::NotLocal),
            of_administrators: client(Policy::NotLinkLocal),
            metrics,
        }
    }

    async fn send(&self, target: &Target, call: &Call) -> Result<Answer, Failure> {
        let (method, path) = call.route();
        let url = url(target, &path)?;
        let client = match target.tenant.as_str() {
            "" => &self.of_administrators,
            _ => &self.of_users,
        };
        let body = call.body();
        let request = Request {
            operation: call.operation(),
            method,
            url: &url,
            via: None,
            headers: headers(target, call, body.as_ref().map(|(kind, _)| *kind))?,
            body: body.map(|(_, text)| Bytes::from(text)).unwrap_or_default(),
            tenant: &target.tenant,
            tls: &target.tls,
            total_timeout: call.total_timeout(),
        };
        match client.send(request).await {
            Ok(response) => read(target, call, &response),
            Err(error) => {
                let message = format!(
                    "the Infrastructure Manager cannot be reached: {}",
                    error.kind.summary()
                );
                Err(Failure::of_request(&error.kind, message))
            }
        }
    }
}

impl InfrastructureManager for ImClient {
    fn call<'a>(
        &'a self,
        target: &'a Target,
        call: &'a Call,
    ) -> BoxFuture<'a, Result<Answer, Failure>> {
        async move {
            let counted = self.metrics.begin(call);
            let answered = self.send(target, call).await;
            counted.end(answered.as_ref().err().map(|failure| failure.kind));
            answered
        }
        .boxed()
    }
}

fn url(target: &Target, path: &str) -> Result<Url, Failure> {
    let url = format!("{}{path}", target.url.trim_end_matches('/'));
    url.parse::<Url>()
        .map_err(|error| unsent(format!("the URL of the provider cannot be used: {error}")))
}

fn headers(target: &Target, call: &Call, kind: Option<&'static str>) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    if let Some(kind) = kind {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    if call.needs_account() {
        let login = authorization(target);
        if login.len() > LOGIN_MAX {
            return Err(Failure {
                kind: FailureKind::CredentialsRejected,
                ..unsent(format!(
                    "the credentials have more than {LOGIN_MAX} bytes in a request"
                ))
            });
        }
        let mut login = HeaderValue::try_from(login)
            .map_err(|_| unsent("the credentials cannot be written into a header".to_owned()))?;
        login.set_sensitive(true);
        headers.insert(AUTHORIZATION, login);
    }
    Ok(headers)
}

fn unsent(message: String) -> Failure {
    Failure {
        kind: FailureKind::Unreachable,
        message,
        sent: Sent::No,
    }
}

/// Reads what came back.
pub(crate) fn read(target: &Target, call: &Call, response: &Response) -> Result<Answer, Failure> {
    let Response {
        status,
        headers,
        body,
    } = response;
    let mask = || Mask::new(target, call);
    if *status == StatusCode::OK {
        return Answer::read(call, headers, body).map(|answer| match answer {
            Answer::Log(log) => Answer::Log(words::end_of_log(&mask(), &log)),
            answer => answer,
        });
    }
    Err(Failure {
        kind: FailureKind::of(*status, body),
        message: message(*status, words::error(&mask(), body)),
        sent: Sent::with(*status),
    })
}

fn message(status: StatusCode, words: String) -> String {
    if !words.is_empty() {
        return words;
    }
    let status = status.as_u16();
    format!("the Infrastructure Manager answers with HTTP {status}")
}

// What is measured of calls.

/// From a millisecond to about two minutes, doubling.
const BUCKETS: Histograms = Histograms(0.001, 2.0, 18);
/// The outcome of a call with an answer.
const SUCCESS: &str = "success";
/// That of a call that nobody waits for any more.
const CANCELLED: &str = "cancelled";

metrics! {
    /// Metrics of calls; cheap to clone, registered once.
    pub(crate) struct ImMetrics(pub(super) outbound: OutboundMetrics) {
        requests: By<2> = "im_requests", "Requests to Infrastructure Managers, by operation and outcome", By::new(["operation", "outcome"]);
        duration: By<1, Histogram, Histograms> = "im_request_duration" Seconds, "Duration of requests to Infrastructure Managers, failed ones included", By::histograms(["operation"], BUCKETS);
    }
}

impl ImMetrics {
    /// Begins to count a call. It is counted when what is returned is dropped: as cancelled, if that is before its end.
    pub(super) fn begin(&self, call: &Call) -> Counted<'_> {
        Counted {
            metrics: self,
            operation: call.operation(),
            outcome: CANCELLED,
            begun: Instant::now(),
        }
    }
}

/// A call that is being counted.
pub(super) struct Counted<'a> {
    metrics: &'a ImMetrics,
    operation: &'static str,
    outcome: &'static str,
    begun: Instant,
}

impl Counted<'_> {
    /// Counts the call as answered, or as failed.
    pub(super) fn end(mut self, failure: Option<FailureKind>) {
        self.outcome = failure.map_or(SUCCESS, FailureKind::as_str);
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let (operation, outcome) = (self.operation, self.outcome);
        self.metrics.requests.of([operation, outcome]).inc();
        // A call that waited for our own limit says nothing about IM.
        if outcome != FailureKind::Limited.as_str() {
            let took = self.begun.elapsed().as_secs_f64();
            self.metrics.duration.of([operation]).observe(took);
        }
    }
}

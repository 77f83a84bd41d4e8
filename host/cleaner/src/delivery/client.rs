//! Sends an event to a sink once.

use std::sync::Arc;
use std::time::Duration;

use http::header::{DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, Method, StatusCode};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use podloom_engine::outbound::{
    Cidr, Client, OutboundMetrics, Policy, Request, RequestErrorKind, RequestLimits, Resolve,
    Response, Roots, Rules, Settings, Tls, Url,
};
use podloom_engine::shown::at_most;

use crate::delivery::event::CloudEvent;

/// How many attempts run at once.
pub(super) const ATTEMPTS: u16 = 32;
/// How many of them are of Cleaners of one namespace: one whose sinks hang leaves the others for the rest.
pub(super) const ATTEMPTS_PER_NAMESPACE: u16 = 8;

/// How much is kept of why an attempt failed, in bytes: a status holds no more.
const MESSAGE_MAX: usize = 256;

const LIMITS: RequestLimits = RequestLimits {
    // There is room for all attempts that run, but not for all lookups of names.
    permit_timeout: Duration::from_secs(2),
    connect_timeout: Duration::from_secs(5),
    total_timeout: Duration::from_secs(10),
    // An object of the API server has at most 1.5 MiB or so, and a character may take six bytes.
    request_bytes: 8 * 1024 * 1024,
    head_bytes: 32 * 1024,
    // It is not read.
    response_bytes: 64 * 1024,
    concurrency: ATTEMPTS,
    concurrency_per_host: ATTEMPTS,
};

/// What decides where events may go, and who is trusted there.
#[derive(Clone)]
pub(crate) struct SinkSettings {
    /// Whether sinks may be on this machine itself.
    pub(crate) allows_loopback: bool,
    /// Looks up their names.
    pub(crate) resolver: Arc<dyn Resolve>,
    /// The measurements of requests.
    pub(crate) outbound: OutboundMetrics,
}

/// Sends events.
pub(super) struct SinkClient {
    client: Client,
    /// None if the certificates of this machine cannot be read: then only sinks without TLS can be used.
    tls: Result<Tls, String>,
}

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// The sink accepted the event.
    Accepted,
    /// It did not. The message is in our words: nothing of it is from the sink.
    Failed {
        message: String,
        retry_after: Option<Duration>,
    },
    /// Too many of our requests run. This says nothing about the sink.
    Busy,
}

impl SinkClient {
    /// Returns a client. It sends nothing yet.
    pub(super) fn new(settings: &SinkSettings) -> Self {
        let tls = Tls::new(&Roots::Public, None).map_err(|error| error.to_string());
        Self::with_tls(settings, tls)
    }

    /// Does what [`new`](Self::new) does, with other authorities.
    pub(super) fn with_tls(settings: &SinkSettings, tls: Result<Tls, String>) -> Self {
        let requests = Settings {
            system: "cleaner-sink",
            rules: Rules {
                // A sink may be in the cluster.
                policy: Policy::NotLocal,
                allow: loopback(settings.allows_loopback),
                deny: Vec::new(),
                flag: "--cleaner-allow-loopback-sinks",
            },
            limits: LIMITS,
        };
        let resolver = Arc::clone(&settings.resolver);
        Self {
            client: Client::new(requests, resolver, settings.outbound.clone()),
            tls,
        }
    }

    /// Sends an event of a Cleaner of this namespace once. A sink that accepts an event may do so although this says otherwise: its answer
    /// may be lost.
    pub(super) async fn send(
        &self,
        namespace: &str,
        sink: &str,
        event: CloudEvent,
        now: impl Fn() -> Timestamp,
    ) -> Sent {
        let url: Url = match sink.parse() {
            Ok(url) => url,
            Err(error) => return failed(format!("spec.cloudEventSink cannot be used: {error}")),
        };
        let tls = match &self.tls {
            Ok(tls) => tls,
            Err(error) => return failed(error.clone()),
        };
        let request = Request {
            operation: "deliver",
            method: Method::POST,
            url: &url,
            via: None,
            headers: event.headers,
            body: event.body,
            tenant: namespace,
            tls,
            total_timeout: None,
        };
        match self.client.send_for_head(request).await {
            Ok(response) => of_response(&response, now()),
            Err(error) => match error.kind {
                RequestErrorKind::Busy { .. } => Sent::Busy,
                RequestErrorKind::Redirected { status, .. } => {
                    failed(format!("{}; redirects are not followed", refusal(status)))
                }
                kind => failed(format!("the sink cannot be reached: {}", kind.summary())),
            },
        }
    }
}

fn of_response(response: &Response, now: Timestamp) -> Sent {
    match response.status {
        status if status.is_success() => Sent::Accepted,
        status => Sent::Failed {
            message: refusal(status),
            retry_after: retry_after(&response.headers, now),
        },
    }
}

fn refusal(status: StatusCode) -> String {
    format!("the sink answered with HTTP {}", status.as_u16())
}

fn failed(message: String) -> Sent {
    Sent::Failed {
        message: at_most(MESSAGE_MAX, message),
        retry_after: None,
    }
}

/// The addresses of this machine itself, if they are allowed.
fn loopback(is_allowed: bool) -> Vec<Cidr> {
    let ranges = ["127.0.0.0/8", "::1/128"];
    let ranges = ranges.iter().filter(|_| is_allowed);
    ranges.filter_map(|range| range.parse().ok()).collect()
}

/// The three forms of a date in HTTP; servers write the first, and clients must read all.
const DATES: [&str; 3] = [
    "%a, %d %b %Y %H:%M:%S GMT",
    "%A, %d-%b-%y %H:%M:%S GMT",
    "%a %b %e %H:%M:%S %Y",
];

/// Returns how long a sink wants to be left alone, if it says so. A date counts from the one of the answer, so it does not matter if its
/// clock differs from ours; from `now` if the answer has none.
pub(super) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let value = text(headers, &RETRY_AFTER)?;
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that is too large for us is a long time.
        return Some(value.parse().map_or(Duration::MAX, Duration::from_secs));
    }
    let until = date(value)?;
    let from = text(headers, &DATE).and_then(date).unwrap_or(now);
    // A date that has passed is no wait.
    Some(Duration::try_from(until.duration_since(from)).unwrap_or_default())
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn date(text: &str) -> Option<Timestamp> {
    let date = DATES
        .iter()
        .find_map(|form| DateTime::strptime(form, text).ok())?;
    let date = date.to_zoned(TimeZone::UTC).ok()?;
    Some(date.timestamp())
}

#[cfg(test)]
mod tests;

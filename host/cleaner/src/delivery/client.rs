//! Sends an event to a sink once.

use std::sync::Arc;
use std::time::Duration;

use http::header::{DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, Method, StatusCode};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use podloom_engine::backoff::jittered;
use podloom_engine::outbound::{
    Cidr, Client, OutboundMetrics, Policy, Request, RequestErrorKind, RequestLimits, Resolve,
    Response, Roots, Rules, Settings, Tls, Url,
};
use podloom_engine::plan::later;
use podloom_engine::shown::at_most;

use crate::delivery::event::CloudEvent;
use crate::delivery::wait;
use crate::memory::{Attempt, AttemptState};
use crate::settings::CleanerSettings;

/// How many attempts run at once.
pub(super) const ATTEMPTS: u16 = 32;
/// How many of them are of Cleaners of one namespace: one whose sinks hang leaves the others for the rest.
pub(super) const ATTEMPTS_PER_NAMESPACE: u16 = 8;

/// How long to wait if too many of our requests run.
const BUSY: Duration = Duration::from_secs(2);
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

/// Sends events.
pub(crate) struct SinkClient {
    client: Client,
    /// None if the certificates of this machine cannot be read: then only sinks without TLS can be used.
    tls: Result<Tls, String>,
}

impl SinkClient {
    /// Returns a client that looks up the names of sinks so. It sends nothing yet.
    pub(crate) fn new(
        settings: &CleanerSettings,
        resolver: Arc<dyn Resolve>,
        outbound: OutboundMetrics,
    ) -> Self {
        let requests = Settings {
            system: "cleaner-sink",
            rules: Rules {
                // A sink may be in the cluster.
                policy: Policy::NotLocal,
                allow: loopback(settings.allow_loopback_sinks),
                deny: Vec::new(),
                flag: "--cleaner-allow-loopback-sinks",
            },
            limits: LIMITS,
        };
        Self {
            client: Client::new(requests, resolver, outbound),
            tls: Tls::new(&Roots::Public, None).map_err(|error| error.to_string()),
        }
    }

    /// Makes an attempt for a Cleaner of this namespace, and returns it with what came of it. A sink that accepts an event may do so
    /// although this says otherwise: its answer may be lost.
    pub(super) async fn send(
        &self,
        namespace: &str,
        attempt: Attempt,
        event: CloudEvent,
        now: impl Fn() -> Timestamp,
    ) -> Attempt {
        let answer = self.answer(namespace, &attempt.sink, event).await;
        let now = now();
        let pause = |wait| now..later(now, jittered(wait));
        let (message, retry_after) = match answer {
            Ok(response) if response.status.is_success() => {
                return Attempt {
                    failures: 0,
                    state: AttemptState::Accepted,
                    ..attempt
                };
            }
            Err(None) => {
                return Attempt {
                    state: AttemptState::Postponed(pause(BUSY)),
                    ..attempt
                };
            }
            Ok(response) => {
                let retry_after = retry_after(&response.headers, now);
                (refusal(response.status), retry_after)
            }
            Err(Some(message)) => (at_most(MESSAGE_MAX, message), None),
        };
        let failures = attempt.failures.saturating_add(1);
        Attempt {
            failures,
            state: AttemptState::Failed(message, pause(wait(failures, retry_after))),
            ..attempt
        }
    }

    /// The answer of a sink, or why there is none: nothing is said if too many of our requests run, which says nothing about the sink.
    async fn answer(
        &self,
        namespace: &str,
        sink: &str,
        event: CloudEvent,
    ) -> Result<Response, Option<String>> {
        let url: Url = sink
            .parse()
            .map_err(|error| format!("spec.cloudEventSink cannot be used: {error}"))?;
        let request = Request {
            operation: "deliver",
            method: Method::POST,
            url: &url,
            via: None,
            headers: event.headers,
            body: event.body,
            tenant: namespace,
            tls: self.tls.as_ref().map_err(Clone::clone)?,
            total_timeout: None,
        };
        let answer = self.client.send_for_head(request).await;
        answer.map_err(|error| match error.kind {
            RequestErrorKind::Busy { .. } => None,
            RequestErrorKind::Redirected { status, .. } => {
                Some(format!("{}; redirects are not followed", refusal(status)))
            }
            kind => Some(format!("the sink cannot be reached: {}", kind.summary())),
        })
    }
}

fn refusal(status: StatusCode) -> String {
    format!("the sink answered with HTTP {}", status.as_u16())
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

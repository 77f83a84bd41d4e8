//! The one HTTP client for everything but the API server: for hosts that users or administrators of the cluster name.
//!
//! Each step of a request has a file:
//!
//! 1. The [`Url`] is parsed once (`url`), so that no two parsers can disagree about its host.
//! 2. The request waits for a permit (`permits`), then for room to look up the name.
//! 3. The name is resolved once (`resolve`), each address is checked against the caller's [`Rules`] (`policy`), and an
//!    allowed address is dialled (`exchange`). The name is not looked up again, so a DNS answer that changes (DNS rebinding) has no
//!    effect. If a proxy leads there (`proxy`), the proxy is asked for that address, and never for the name: it would look it up
//!    itself, and reach what the rules block.
//! 4. The TLS handshake verifies the certificate for the URL's host, whatever address was dialled (`tls`).
//! 5. One request and one response go over the connection (`exchange`), and it is closed.
//!
//! The environment decides nothing but the certificate store and the proxies. There are no redirects, cookies, compression, retries, caches
//! or kept connections. Everything that a server sends has a limit ([`RequestLimits`]). Each error has a [`RequestErrorKind`] that a
//! caller can act on. Headers, bodies, paths and queries never appear in errors, logs or `Debug`.

mod error;
mod exchange;
mod permits;
mod policy;
mod proxy;
mod resolve;
mod tls;
mod url;
mod words;

use std::sync::Arc;
use std::time::Duration;
use std::{fmt, time};

use exchange::{Deadline, Metered, Wanted, Way};
use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, HOST,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, USER_AGENT,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use http_body_util::Full;
use hyper::body::Bytes;
use permits::RequestPermits;
use podloom_metrics::{By, Histograms, metrics};
use prometheus_client::metrics::histogram::Histogram;
use tokio::time::{Instant, timeout};
use tracing::Instrument;

pub use error::{
    BadResponse, ConcurrencyLimit, Part, RequestError, RequestErrorKind, RequestPhase,
};
pub use exchange::Response;
pub use permits::RequestLimits;
pub use policy::{BlockedAddress, Cidr, CidrError, Policy, Range, Rules, Vetted};
pub use proxy::{Proxies, Proxy, ProxyError};
pub use resolve::{Answering, Resolve, SystemResolver};
pub use tls::{Identity, Pem, Roots, Tls, TlsError, TlsProblem};
pub use url::{Origin, Scheme, Url, UrlError};

/// The header `User-Agent`.
const AGENT: HeaderValue = HeaderValue::from_static(concat!("podloom/", env!("CARGO_PKG_VERSION")));

/// Headers that say how a message is transmitted. The client sets them itself: with one of the caller's, the two ends could disagree
/// where a message ends.
const TRANSMISSION: [HeaderName; 9] = [
    ACCEPT_ENCODING,
    CONNECTION,
    CONTENT_LENGTH,
    EXPECT,
    HOST,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// The longest timeout of a request, whatever the limits say.
const TIMEOUT_MAX: Duration = Duration::from_hours(1);

/// Headers that hold credentials.
const SECRET: [HeaderName; 3] = [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION];

/// What all requests of a client have in common.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What the requests are for: the label `system` of the metrics.
    pub system: &'static str,
    /// Which addresses requests may go to.
    pub rules: Rules,
    /// Timeouts and sizes.
    pub limits: RequestLimits,
}

/// One request. `Debug` shows neither the values of headers nor the body, the path and the query.
#[derive(Clone)]
pub struct Request<'a> {
    /// What it does: the label `operation` of the metrics, one of a few words.
    pub operation: &'static str,
    /// The method.
    pub method: Method,
    /// The URL. Its host is also the header `Host` and the name that the certificate must have.
    pub url: &'a Url,
    /// The URL whose host and port to dial instead; its scheme and path do not matter.
    pub via: Option<&'a Url>,
    /// Headers of the caller. Credentials need not be marked as sensitive. Headers about the transmission (`Host`, `Content-Length`,
    /// `Connection`, `Accept-Encoding` and the like) are replaced.
    pub headers: HeaderMap,
    /// The body, at most [`RequestLimits::request_bytes`]; empty for none.
    pub body: Bytes,
    /// Who named the URL: the namespace of the object that it is from, empty for URLs of administrators. DNS lookups of one tenant
    /// that hang do not stop those of others.
    pub tenant: &'a str,
    /// How TLS is set up, for `https`.
    pub tls: &'a Tls,
    /// How long it may take once it has a permit, instead of [`RequestLimits::total_timeout`].
    pub total_timeout: Option<Duration>,
}

/// Sends requests to the hosts that its rules allow. Each request has a connection of its own, which is closed afterwards.
pub struct Client {
    settings: Settings,
    resolver: Arc<dyn Resolve>,
    permits: RequestPermits,
    metrics: OutboundMetrics,
}

impl Client {
    /// Creates a client with concurrency limits of its own. It sends no request yet.
    pub fn new(settings: Settings, resolver: Arc<dyn Resolve>, metrics: OutboundMetrics) -> Self {
        let permits = RequestPermits::new(&settings.limits);
        Self {
            settings,
            resolver,
            permits,
            metrics,
        }
    }

    /// Sends a request and returns the whole response, whatever its status is; only a redirect is an error.
    ///
    /// It takes at most twice [`RequestLimits::permit_timeout`] and the total timeout. Dropping the future ends the request; the server may
    /// have received it by then.
    pub async fn send(&self, request: Request<'_>) -> Result<Response, RequestError> {
        self.sent(request, Wanted::Whole).await
    }

    /// Sends a request and returns the response without its body, which is not read: for callers to whom the status says all. A body
    /// that is too large, compressed, late or broken is no error then.
    pub async fn send_for_head(&self, request: Request<'_>) -> Result<Response, RequestError> {
        self.sent(request, Wanted::Head).await
    }

    async fn sent(&self, request: Request<'_>, wanted: Wanted) -> Result<Response, RequestError> {
        let origin = request.url.origin().clone();
        let span = tracing::debug_span!(
            "external_request",
            system = self.settings.system,
            operation = request.operation,
            url = %origin,
        );
        let sent = self.attempt(request, wanted).instrument(span).await;
        sent.map_err(|kind| RequestError { origin, kind })
    }

    async fn attempt(
        &self,
        request: Request<'_>,
        wanted: Wanted,
    ) -> Result<Response, RequestErrorKind> {
        let Settings {
            system,
            rules,
            limits,
        } = &self.settings;
        if request.body.len() > limits.request_bytes {
            return Err(exchange::too_large(Part::RequestBody, limits.request_bytes));
        }
        let origin = request.url.origin();
        let dialled = request.via.unwrap_or(request.url);
        let target = dialled.origin();
        let _permit = self.permits.acquire(target).await?;
        let way = Way {
            resolver: &*self.resolver,
            tenant: request.tenant,
            scheme: origin.scheme(),
            target,
        };
        let begun = exchange::begin(way, rules, dialled);
        let begun = timeout(limits.permit_timeout, begun)
            .await
            .map_err(|_| no_lookup(limits))?;
        let _timer = self.metrics.time(system, request.operation);
        let (connecting, total) = deadlines(limits, request.total_timeout);
        let vetted = exchange::addresses(begun, rules, connecting).await?;
        let stream = exchange::dial(&vetted, way, connecting).await?;
        let stream = Metered::new(stream, exchange::wire_limit(limits));
        let stream = exchange::secure(stream, origin, request.tls, connecting).await?;
        exchange::exchange(stream, message(request), (limits, wanted), total).await
    }
}

/// The error of a request for whose name there was no lookup.
fn no_lookup(limits: &RequestLimits) -> RequestErrorKind {
    RequestErrorKind::Busy {
        limit: ConcurrencyLimit::Lookups,
        max: resolve::LOOKUPS_PER_TENANT,
        waited: limits.permit_timeout,
    }
}

/// The deadlines of the connection and of the whole response.
fn deadlines(limits: &RequestLimits, total: Option<Duration>) -> (Deadline, Deadline) {
    let now = Instant::now();
    let by = |after: Duration| Deadline {
        at: now + after.min(TIMEOUT_MAX),
        after,
    };
    let total = total.unwrap_or(limits.total_timeout);
    (by(limits.connect_timeout.min(total)), by(total))
}

/// The HTTP message of a request.
fn message(request: Request<'_>) -> http::Request<Full<Bytes>> {
    let mut message = http::Request::new(Full::new(request.body));
    *message.method_mut() = request.method;
    *message.uri_mut() = request.url.target().clone().into();
    let mut headers = request.headers;
    for name in TRANSMISSION {
        headers.remove(name);
    }
    for name in SECRET {
        if let http::header::Entry::Occupied(mut secret) = headers.entry(name) {
            secret
                .iter_mut()
                .for_each(|value| value.set_sensitive(true));
        }
    }
    // An authority has only characters that headers may have.
    if let Ok(host) = HeaderValue::try_from(request.url.origin().authority()) {
        headers.insert(HOST, host);
    }
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.entry(USER_AGENT).or_insert(AGENT);
    *message.headers_mut() = headers;
    message
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("operation", &self.operation)
            .field("method", &self.method)
            .field("url", &self.url)
            .field("via", &self.via)
            .field("tenant", &self.tenant)
            .field("headers", &exchange::names(&self.headers))
            .field("body", &format_args!("{} bytes", self.body.len()))
            .finish_non_exhaustive()
    }
}

// The duration of requests.

/// From a millisecond to about a minute, doubling.
const BUCKETS: Histograms = Histograms(0.001, 2.0, 17);

metrics! {
    /// Metrics of all clients; cheap to clone, registered once.
    pub struct OutboundMetrics {
        duration: By<2, Histogram, Histograms> = "external_request_duration" Seconds, "Duration of requests to external systems, failed and cancelled ones included", By::histograms(["system", "operation"], BUCKETS);
    }
}

impl OutboundMetrics {
    /// Starts the timer of a request; it is observed when the timer is dropped.
    fn time(&self, system: &'static str, operation: &'static str) -> Timer {
        Timer {
            histogram: self.duration.of([system, operation]).clone(),
            begun: time::Instant::now(),
        }
    }
}

/// Observes its own lifetime when it is dropped.
struct Timer {
    histogram: Histogram,
    begun: time::Instant,
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.histogram.observe(self.begun.elapsed().as_secs_f64());
    }
}

#[cfg(test)]
mod tests;

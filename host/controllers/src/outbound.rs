//! The one HTTP client for what lies outside the cluster's API: hosts that users or administrators of the cluster name.
//!
//! A request goes one way, and each step has a file:
//!
//! 1. The [`Url`] was read once (`url`); there is no second reading that could differ.
//! 2. The request waits for a place (`places`).
//! 3. The name is resolved once (`resolve`), each address is vetted against the caller's [`Rules`] (`policy`, `range`), and a
//!    vetted address is dialled (`connect`). Nobody looks the name up again, so an answer that changes (DNS rebinding) changes
//!    nothing.
//! 4. TLS is set up for the URL's host, whatever address was dialled (`tls`).
//! 5. One request and one answer go over the connection (`exchange`), and it is closed.
//!
//! Nothing is taken from the environment but the machine's certificate store; there are no redirects, proxies, cookies,
//! compression, retries, caches or connections that are kept. Everything that comes from the other end has a limit
//! ([`Limits`]), and whatever goes wrong is a [`Failure`] that a caller can act on. Nothing of headers, bodies, paths and queries
//! is in errors, logs or `Debug`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, HOST,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, USER_AGENT,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use http_body_util::Full;
use hyper::body::Bytes;
use tokio::time::Instant;
use tracing::Instrument;

mod cidr;
mod connect;
mod error;
mod exchange;
mod limits;
mod metered;
mod metrics;
mod places;
mod policy;
mod range;
mod resolve;
mod tls;
mod url;
mod words;

pub use cidr::{Cidr, CidrError};
pub use error::{Broken, Failure, Part, Phase, RequestError, Scope};
pub use exchange::Answer;
pub use limits::Limits;
pub use metrics::OutboundMetrics;
pub use policy::{Policy, Refusal, Rules, Vetted};
pub use range::Range;
pub use resolve::{Resolve, SystemResolver};
pub use tls::{Identity, Pem, PemError, Roots, Tls, TlsError, TlsProblem};
pub use url::{Origin, Scheme, Url, UrlError};

use connect::Deadline;
use metered::Metered;
use places::Places;

/// What servers learn of us.
const AGENT: HeaderValue = HeaderValue::from_static(concat!("podloom/", env!("CARGO_PKG_VERSION")));

/// Headers that say how a message travels. They are ours alone: one of a caller could make the two ends disagree where a message
/// ends.
const TRAVEL: [HeaderName; 9] = [
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

/// No request takes longer, whatever the limits say.
const LONGEST: Duration = Duration::from_hours(1);

/// Headers that hold credentials.
const SECRET: [HeaderName; 3] = [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION];

/// What is the same for all requests of a client.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What the requests are for, as the label `system` of the metrics.
    pub system: &'static str,
    /// Whom requests may go to.
    pub rules: Rules,
    /// What requests may take.
    pub limits: Limits,
}

/// One request. `Debug` shows neither the values of headers nor the body, the path and the query.
#[derive(Clone)]
pub struct Request<'a> {
    /// What it does, as the label `operation` of the metrics: one of a few words.
    pub operation: &'static str,
    /// The method.
    pub method: Method,
    /// Where it goes. The host is also the header `Host` and the name that the certificate must have.
    pub url: &'a Url,
    /// Whose address to dial in place of the URL's: scheme and path do not matter, host and port do.
    pub via: Option<&'a Url>,
    /// Headers of the caller. Credentials need not be marked as sensitive, and headers that say how the message travels (`Host`,
    /// `Content-Length`, `Connection`, `Accept-Encoding` and their like) are replaced.
    pub headers: HeaderMap,
    /// The body, at most [`Limits::request_bytes`]; empty for none.
    pub body: Bytes,
    /// Whose certificates are believed, for `https`.
    pub tls: &'a Tls,
    /// How long it may take once it has a place, in place of [`Limits::total`].
    pub total: Option<Duration>,
}

/// Sends requests to whom its rules allow. Each request has a connection of its own, which ends with it.
pub struct Client {
    settings: Settings,
    resolver: Arc<dyn Resolve>,
    places: Places,
    metrics: OutboundMetrics,
}

impl Client {
    /// Makes a client with places of its own; it makes no request yet.
    pub fn new(settings: Settings, resolver: Arc<dyn Resolve>, metrics: OutboundMetrics) -> Self {
        let places = Places::new(&settings.limits);
        Self {
            settings,
            resolver,
            places,
            metrics,
        }
    }

    /// Sends a request and returns the whole answer, whatever its status is; only a redirect is an error.
    ///
    /// It takes at most [`Limits::wait`] and the time of the request. Dropping it ends it; what was sent by then was sent.
    pub async fn send(&self, request: Request<'_>) -> Result<Answer, RequestError> {
        let origin = request.url.origin().clone();
        let span = tracing::debug_span!(
            "external_request",
            system = self.settings.system,
            operation = request.operation,
            host = %origin,
        );
        let sent = self.attempt(request).instrument(span).await;
        sent.map_err(|failure| RequestError { origin, failure })
    }

    async fn attempt(&self, request: Request<'_>) -> Result<Answer, Failure> {
        let Settings {
            system,
            rules,
            limits,
        } = &self.settings;
        if request.body.len() > limits.request_bytes {
            return Err(exchange::too_large(Part::Request, limits.request_bytes));
        }
        let origin = request.url.origin();
        let way = request.via.unwrap_or(request.url);
        let target = way.origin();
        let _place = self.places.take(target).await?;
        let _timer = self.metrics.time(system, request.operation);
        let (connecting, total) = deadlines(limits, request.total);
        let resolver = &*self.resolver;
        let vetted = connect::addresses(resolver, rules, way, connecting).await?;
        let stream = connect::dial(&vetted, target.port(), connecting).await?;
        let stream = Metered::new(stream, metered::wire(limits));
        let stream = connect::secure(stream, origin, request.tls, connecting).await?;
        exchange::exchange(stream, message(request), limits, total).await
    }
}

/// By when a connection has to be there, and by when the whole answer.
fn deadlines(limits: &Limits, total: Option<Duration>) -> (Deadline, Deadline) {
    let now = Instant::now();
    let by = |after: Duration| Deadline {
        at: now + after.min(LONGEST),
        after,
    };
    let total = total.unwrap_or(limits.total);
    (by(limits.connect.min(total)), by(total))
}

/// The message as it travels.
fn message(request: Request<'_>) -> http::Request<Full<Bytes>> {
    let mut message = http::Request::new(Full::new(request.body));
    *message.method_mut() = request.method;
    *message.uri_mut() = request.url.target().clone().into();
    let mut headers = request.headers;
    for name in TRAVEL {
        headers.remove(name);
    }
    for name in SECRET {
        if let http::header::Entry::Occupied(mut secret) = headers.entry(name) {
            secret
                .iter_mut()
                .for_each(|value| value.set_sensitive(true));
        }
    }
    // An authority has nothing that a header could not hold.
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
            .field("headers", &exchange::names(&self.headers))
            .field("body", &format_args!("{} bytes", self.body.len()))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

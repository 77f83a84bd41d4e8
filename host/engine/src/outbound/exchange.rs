//! One request and its response over one connection.

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};

use futures::FutureExt;
use http::header::{CONTENT_ENCODING, LOCATION, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use super::connect::Deadline;
use super::error::{BadResponse, Part, RequestErrorKind, RequestPhase};
use super::limits::RequestLimits;
use super::metered::{Metered, SMALLEST_BUFFER, Stream, http_limit};
use super::url::Host;
use super::words::words;

/// A response. `Debug` shows neither the values of headers nor the body, since both may hold secrets.
#[derive(Clone)]
pub struct Response {
    /// The status; never a redirect.
    pub status: StatusCode,
    /// The headers, at most 100 and [`RequestLimits::head_bytes`](super::RequestLimits::head_bytes) in size. Their values share one
    /// buffer, so a value that is kept keeps the whole head in memory: copy its bytes instead.
    pub headers: HeaderMap,
    /// The body, at most [`RequestLimits::response_bytes`](super::RequestLimits::response_bytes), never compressed.
    pub body: Bytes,
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response")
            .field("status", &self.status)
            .field("headers", &names(&self.headers))
            .field("body", &format_args!("{} bytes", self.body.len()))
            .finish()
    }
}

/// What is read of a response.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All of it.
    Whole,
    /// Its head.
    Head,
}

/// Sends the request and reads the response. The connection is closed afterwards in any case.
pub(super) async fn exchange(
    stream: Box<dyn Stream>,
    request: http::Request<Full<Bytes>>,
    (limits, wanted): (&RequestLimits, Wanted),
    deadline: Deadline,
) -> Result<Response, RequestErrorKind> {
    let stream = Metered::new(stream, http_limit(limits));
    let shaken = http1::Builder::new()
        .max_buf_size(limits.head_bytes.max(SMALLEST_BUFFER))
        .max_header_size(limits.head_bytes)
        .handshake(TokioIo::new(stream))
        .await;
    let (mut sender, connection) = shaken.map_err(|error| error_kind(&error, limits))?;
    let mut connection = pin!(connection.fuse());
    let response = drive(connection.as_mut(), sender.send_request(request));
    let response = deadline.hold(RequestPhase::Head, response).await?;
    let response = response.map_err(|error| error_kind(&error, limits))?;
    check_status(&response)?;
    if wanted == Wanted::Whole {
        check_body(&response, limits)?;
    }
    let (head, body) = response.into_parts();
    let body = match wanted {
        Wanted::Head => Bytes::new(),
        Wanted::Whole => {
            let body = drive(connection.as_mut(), read(body, limits));
            deadline.hold(RequestPhase::Body, body).await??
        }
    };
    Ok(Response {
        status: head.status,
        headers: head.headers,
        body,
    })
}

/// Polls the connection until the future is done: without that, nothing is sent or received. If the connection fails, so does the
/// future.
async fn drive<C: Future, F: Future>(
    mut connection: Pin<&mut futures::future::Fuse<C>>,
    future: F,
) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| {
        let _ended = connection.as_mut().poll(context);
        future.as_mut().poll(context)
    })
    .await
}

/// Rejects redirects and other protocols.
fn check_status(response: &http::Response<Incoming>) -> Result<(), RequestErrorKind> {
    let status = response.status();
    if matches!(status.as_u16(), 300..=303 | 305 | 307 | 308) {
        let to = response.headers().get(LOCATION).and_then(host);
        return Err(RequestErrorKind::Redirected { status, to });
    }
    if status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(BadResponse::Switched.into());
    }
    Ok(())
}

/// Rejects encodings and sizes that show before the body is read.
fn check_body(
    response: &http::Response<Incoming>,
    limits: &RequestLimits,
) -> Result<(), RequestErrorKind> {
    let is_encoded = |(name, plain): (_, &str)| {
        let values = response.headers().get_all(name);
        let plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(plain.as_bytes());
        !values.iter().all(plain)
    };
    let encodings = [
        (CONTENT_ENCODING, "identity"),
        (TRANSFER_ENCODING, "chunked"),
    ];
    if encodings.into_iter().any(is_encoded) {
        return Err(BadResponse::Encoded.into());
    }
    // A body with a Content-Length that is too large need not be read.
    match usize::try_from(response.body().size_hint().lower()) {
        Ok(size) if size <= limits.response_bytes => Ok(()),
        _ => Err(too_large(Part::ResponseBody, limits.response_bytes)),
    }
}

/// The host of a redirect's URL, if that is an absolute URL of HTTP: without a scheme, any text without a slash would be a host.
fn host(location: &HeaderValue) -> Option<String> {
    let location: Uri = location.to_str().ok()?.parse().ok()?;
    if !matches!(location.scheme_str(), Some("http" | "https")) {
        return None;
    }
    let host: Host = location.host()?.parse().ok()?;
    Some(host.to_string())
}

/// Reads a body up to the limit.
async fn read(mut body: Incoming, limits: &RequestLimits) -> Result<Bytes, RequestErrorKind> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut bytes = Vec::with_capacity(announced.min(limits.response_bytes));
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| error_kind(&error, limits))?;
        // Trailers are not used; hyper limits their size.
        let Ok(more) = frame.into_data() else {
            continue;
        };
        if more.len() > limits.response_bytes - bytes.len() {
            return Err(too_large(Part::ResponseBody, limits.response_bytes));
        }
        bytes.extend_from_slice(&more);
    }
    // A vector that grew has up to twice the capacity that it needs.
    bytes.shrink_to_fit();
    Ok(bytes.into())
}

pub(super) fn too_large(part: Part, limit: usize) -> RequestErrorKind {
    RequestErrorKind::TooLarge { part, limit }
}

/// The kind of an error of hyper.
fn error_kind(error: &hyper::Error, limits: &RequestLimits) -> RequestErrorKind {
    if error.is_parse_too_large() {
        return too_large(Part::ResponseHead, limits.head_bytes);
    }
    if error.is_parse() {
        return BadResponse::NotHttp.into();
    }
    let cause = error
        .source()
        .and_then(|cause| cause.downcast_ref::<io::Error>());
    let Some(cause) = cause else {
        return BadResponse::Truncated.into();
    };
    match cause.kind() {
        io::ErrorKind::QuotaExceeded => too_large(Part::Received, http_limit(limits)),
        io::ErrorKind::UnexpectedEof => BadResponse::Truncated.into(),
        // These are hyper's kinds for invalid chunks; rustls uses them too.
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData if !is_tls(cause) => {
            BadResponse::NotHttp.into()
        }
        _ if is_tls(cause) => BadResponse::Connection("TLS failed".to_owned()).into(),
        _ => BadResponse::Connection(words(cause)).into(),
    }
}

fn is_tls(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(|inner| inner.is::<rustls::Error>())
}

/// The names of headers, for `Debug`; that of `HeaderMap` shows the values too.
pub(super) fn names(headers: &HeaderMap) -> Vec<&str> {
    headers.keys().map(HeaderName::as_str).collect()
}

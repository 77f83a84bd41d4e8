//! One request and its answer over one connection.

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};

use futures::FutureExt;
use http::header::{CONTENT_ENCODING, LOCATION, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use super::connect::Deadline;
use super::error::{Broken, Failure, Part, Phase};
use super::limits::Limits;
use super::metered::{Metered, SMALLEST_BUFFER, Stream, travel};
use super::url::Host;
use super::words::words;

/// What came back. `Debug` shows neither the values of headers nor the body: both may hold secrets.
#[derive(Clone)]
pub struct Answer {
    /// The status; never a redirect.
    pub status: StatusCode,
    /// The headers, at most [`Limits::head_bytes`](super::Limits::head_bytes) and 100 of them. All their
    /// values share the buffer that the head was read into: who keeps one for long copies its bytes, or the whole buffer stays.
    pub headers: HeaderMap,
    /// The body, at most [`Limits::answer_bytes`](super::Limits::answer_bytes), as it was sent: it was never compressed.
    pub body: Bytes,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer")
            .field("status", &self.status)
            .field("headers", &names(&self.headers))
            .field("body", &format_args!("{} bytes", self.body.len()))
            .finish()
    }
}

/// Sends the request and reads the answer to its end. Whatever happens, the connection is closed afterwards.
pub(super) async fn exchange(
    stream: Box<dyn Stream>,
    request: http::Request<Full<Bytes>>,
    limits: &Limits,
    deadline: Deadline,
) -> Result<Answer, Failure> {
    let stream = Metered::new(stream, travel(limits));
    let shaken = http1::Builder::new()
        .max_buf_size(limits.head_bytes.max(SMALLEST_BUFFER))
        .max_header_size(limits.head_bytes)
        .handshake(TokioIo::new(stream))
        .await;
    let (mut sender, connection) = shaken.map_err(|error| broken(&error, limits))?;
    let mut connection = pin!(connection.fuse());
    let answer = drive(connection.as_mut(), sender.send_request(request));
    let answer = deadline.hold(Phase::Answer, answer).await?;
    let answer = answer.map_err(|error| broken(&error, limits))?;
    check(&answer, limits)?;
    let (head, body) = answer.into_parts();
    let body = drive(connection.as_mut(), read(body, limits));
    let body = deadline.hold(Phase::Body, body).await??;
    Ok(Answer {
        status: head.status,
        headers: head.headers,
        body,
    })
}

/// Runs the connection until the future is done. Nothing moves on a connection that is not polled, and what it ends with comes
/// out of the future too.
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

/// Refuses what can be refused before the body is read.
fn check(answer: &Response<Incoming>, limits: &Limits) -> Result<(), Failure> {
    let status = answer.status();
    if matches!(status.as_u16(), 300..=303 | 305 | 307 | 308) {
        let to = answer.headers().get(LOCATION).and_then(host);
        return Err(Failure::Redirected { status, to });
    }
    if status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(Broken::Switched.into());
    }
    let is_encoded = |(name, plain): (_, &str)| {
        let values = answer.headers().get_all(name);
        let plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(plain.as_bytes());
        !values.iter().all(plain)
    };
    let encodings = [
        (CONTENT_ENCODING, "identity"),
        (TRANSFER_ENCODING, "chunked"),
    ];
    if encodings.into_iter().any(is_encoded) {
        return Err(Broken::Encoded.into());
    }
    // A body that says how large it is need not be read to be refused.
    match usize::try_from(answer.body().size_hint().lower()) {
        Ok(size) if size <= limits.answer_bytes => Ok(()),
        _ => Err(too_large(Part::Answer, limits.answer_bytes)),
    }
}

/// The host that a redirect points to, if it is a whole URL of HTTP: without a scheme, any text without a slash would be a host.
fn host(location: &HeaderValue) -> Option<String> {
    let location: Uri = location.to_str().ok()?.parse().ok()?;
    if !matches!(location.scheme_str(), Some("http" | "https")) {
        return None;
    }
    let host: Host = location.host()?.parse().ok()?;
    Some(host.to_string())
}

/// Reads a body, and no further than the limit.
async fn read(mut body: Incoming, limits: &Limits) -> Result<Bytes, Failure> {
    let said = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut bytes = Vec::with_capacity(said.min(limits.answer_bytes));
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken(&error, limits))?;
        // What follows a chunked body is bounded by hyper and of no use.
        let Ok(more) = frame.into_data() else {
            continue;
        };
        if more.len() > limits.answer_bytes - bytes.len() {
            return Err(too_large(Part::Answer, limits.answer_bytes));
        }
        bytes.extend_from_slice(&more);
    }
    // What grew piece by piece has up to twice the room that it needs.
    bytes.shrink_to_fit();
    Ok(bytes.into())
}

pub(super) fn too_large(part: Part, limit: usize) -> Failure {
    Failure::TooLarge { part, limit }
}

/// What is wrong, from what hyper says of it.
fn broken(error: &hyper::Error, limits: &Limits) -> Failure {
    if error.is_parse_too_large() {
        return too_large(Part::Head, limits.head_bytes);
    }
    if error.is_parse() {
        return Broken::NotHttp.into();
    }
    let cause = error
        .source()
        .and_then(|cause| cause.downcast_ref::<io::Error>());
    let Some(cause) = cause else {
        return Broken::EndedEarly.into();
    };
    match cause.kind() {
        io::ErrorKind::QuotaExceeded => too_large(Part::Travel, travel(limits)),
        io::ErrorKind::UnexpectedEof => Broken::EndedEarly.into(),
        // How hyper says that chunks make no sense; rustls says more.
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData if !is_tls(cause) => {
            Broken::NotHttp.into()
        }
        _ if is_tls(cause) => Broken::Connection("TLS failed".to_owned()).into(),
        _ => Broken::Connection(words(cause)).into(),
    }
}

fn is_tls(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(|inner| inner.is::<rustls::Error>())
}

/// The names of headers, for `Debug`; `HeaderMap`'s own keys show the values too.
pub(super) fn names(headers: &HeaderMap) -> Vec<&str> {
    headers.keys().map(HeaderName::as_str).collect()
}

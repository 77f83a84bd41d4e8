//! One request and its response over one connection.

use std::convert::Infallible;
use std::error::Error;
use std::future::{poll_fn, ready};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, io};

use futures::FutureExt;
use http::header::{CONTENT_ENCODING, LOCATION, TRANSFER_ENCODING};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;
use tower::service_fn;

use super::error::{BadResponse, Part, RequestErrorKind, RequestPhase};
use super::permits::RequestLimits;
use super::policy::{Policy, Rules, Vetted};
use super::proxy::Proxy;
use super::resolve::{Answering, Resolve};
use super::tls::{Tls, TlsProblem};
use super::url::{Host, Origin, Scheme, Url};
use super::words::{short, words};

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
    stream: Stream,
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

// A limit on all bytes that a server sends: chunk framing and informational responses (1xx) can be endless without ever completing
// the head or adding a byte to the body.

/// The smallest buffer that hyper accepts, in bytes.
pub(super) const SMALLEST_BUFFER: usize = 8 * 1024;
/// How many bytes may be received for each byte that a response may have: a chunk of one byte takes six.
const FRAMING: usize = 8;
/// How many more bytes TLS may take for handshake, session tickets and padding.
const TLS: usize = 256 * 1024;

/// How many bytes of HTTP may be received, framing included.
pub(super) fn http_limit(limits: &RequestLimits) -> usize {
    let answer = limits.head_bytes.saturating_add(limits.response_bytes);
    answer.max(SMALLEST_BUFFER).saturating_mul(FRAMING)
}

/// How many bytes may be received from the connection, TLS included.
pub(super) fn wire_limit(limits: &RequestLimits) -> usize {
    http_limit(limits).saturating_add(TLS)
}

/// A connection, plain or encrypted.
pub(super) type Stream = Either<Metered<TcpStream>, TlsStream<Metered<TcpStream>>>;

/// A stream whose reads fail once too many bytes were read.
pub(super) struct Metered<S> {
    stream: S,
    left: usize,
}

impl<S> Metered<S> {
    /// Returns the stream with a limit on how many bytes can be read.
    pub(super) fn new(stream: S, left: usize) -> Self {
        Self { stream, left }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        match self.left.checked_sub(buffer.filled().len() - before) {
            Some(left) => {
                self.left = left;
                read
            }
            None => Poll::Ready(Err(io::ErrorKind::QuotaExceeded.into())),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

// From a host to a connection: resolve once, check each address, dial an allowed one.

/// How many addresses of a host are tried at most.
const TRIED: usize = 8;

/// A point in time, and the timeout that leads to it.
#[derive(Clone, Copy)]
pub(super) struct Deadline {
    pub(super) at: Instant,
    pub(super) after: Duration,
}

impl Deadline {
    /// Awaits the future until the deadline.
    pub(super) async fn hold<F: Future>(
        self,
        phase: RequestPhase,
        future: F,
    ) -> Result<F::Output, RequestErrorKind> {
        timeout_at(self.at, future)
            .await
            .map_err(|_| RequestErrorKind::TimedOut {
                phase,
                after: self.after,
            })
    }
}

/// How the address of a target is found and reached, and for whom.
#[derive(Clone, Copy)]
pub(super) struct Way<'a> {
    pub(super) resolver: &'a dyn Resolve,
    pub(super) tenant: &'a str,
    pub(super) scheme: Scheme,
    pub(super) target: &'a Origin,
}

/// Begins to find the addresses of a host: returns as soon as the lookup has begun.
pub(super) async fn begin(way: Way<'_>, rules: &Rules, url: &Url) -> Answering {
    // No search domains for public names: with one, a name could resolve to a Service of the cluster.
    let is_absolute = url.is_absolute() || rules.policy == Policy::PublicOnly;
    match way.target.host() {
        Host::Address(address) => ready(Ok(vec![*address])).boxed(),
        Host::Name(name) => {
            let dot = if is_absolute { "." } else { "" };
            let name = format!("{}{dot}", name.as_ref());
            way.resolver.begin(&name, way.tenant).await
        }
    }
}

/// Returns the allowed addresses of a host, in the order in which to try them.
///
/// If only some addresses of a name are blocked, the others are used. Nothing is sent to the blocked ones, and names with a private
/// address for one network and a public one for the rest are common. Blocking such a name would not be safer, since its owner chooses
/// which addresses to publish.
pub(super) async fn addresses(
    begun: Answering,
    rules: &Rules,
    deadline: Deadline,
) -> Result<Vec<Vetted>, RequestErrorKind> {
    let found = deadline.hold(RequestPhase::Resolve, begun).await?;
    let found = found.map_err(|error| RequestErrorKind::Resolve(short(&error.to_string())))?;
    let mut first_blocked = None;
    let mut vetted = Vec::new();
    for address in found {
        match rules.vet(address) {
            Ok(address) if !vetted.contains(&address) => vetted.push(address),
            Ok(_) => {}
            Err(blocked) => first_blocked = first_blocked.or(Some(blocked)),
        }
        if vetted.len() == TRIED {
            break;
        }
    }
    match first_blocked {
        _ if !vetted.is_empty() => Ok(vetted),
        Some(blocked) => Err(blocked.into()),
        None => Err(RequestErrorKind::Resolve("it has no address".to_owned())),
    }
}

impl Way<'_> {
    async fn connect(self, address: SocketAddr) -> Result<TcpStream, String> {
        let host = match self.target.host() {
            Host::Name(name) => name.as_ref().to_owned(),
            Host::Address(address) => address.to_string(),
        };
        let (ip, port) = (Some(address.ip()), address.port());
        let proxy = self.resolver.proxies().map(|it| {
            it.of(self.scheme, &host, port, ip)
                .map_err(|error| error.to_string())
        });
        let Some(proxy) = proxy.transpose()?.flatten() else {
            let connected = TcpStream::connect(address).await;
            return connected.map_err(|error| words(&error));
        };
        let found = self.found(proxy).await?;
        let found =
            service_fn(move |_: Name| ready(Ok::<_, Infallible>(found.clone().into_iter())));
        let mut connector = HttpConnector::new_with_resolver(found);
        connector.enforce_http(false);
        let target = Authority::try_from(address.to_string()).map_err(|error| error.to_string())?;
        let connected = proxy.connect(connector, target).await;
        let stream = connected.map_err(|error| short(&error))?;
        Ok(stream.into_inner())
    }

    /// The addresses of the proxy; none if its URL has one. The connector would look up its name on threads without a limit, which
    /// plugins need as well.
    async fn found(self, proxy: &Proxy) -> Result<Vec<SocketAddr>, String> {
        let Some(name) = proxy.name() else {
            return Ok(Vec::new());
        };
        let found = self.resolver.begin(name, self.tenant).await.await;
        let unknown = |why: &str| format!("the proxy {proxy} is not found: {why}");
        let found = found.map_err(|error| unknown(&short(&error.to_string())))?;
        if found.is_empty() {
            return Err(unknown("it has no address"));
        }
        // The connector knows the port.
        let found = found.into_iter().take(TRIED);
        Ok(found.map(|address| SocketAddr::new(address, 0)).collect())
    }
}

/// Connects to the first address that accepts. Each gets an equal share of the remaining time, so that a silent one leaves some for
/// the next.
pub(super) async fn dial(
    addresses: &[Vetted],
    way: Way<'_>,
    deadline: Deadline,
) -> Result<TcpStream, RequestErrorKind> {
    let mut last = RequestErrorKind::Resolve("it has no address".to_owned());
    for (tried, address) in addresses.iter().enumerate() {
        let address = SocketAddr::new(address.address(), way.target.port());
        let now = Instant::now();
        let share = deadline.at.saturating_duration_since(now)
            / u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        let turn = Deadline {
            at: now + share,
            after: deadline.after,
        };
        last = match turn.hold(RequestPhase::Connect, way.connect(address)).await {
            Ok(Ok(stream)) => {
                // Without it small requests are only slower, so an error does not matter.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(reason)) => RequestErrorKind::Connect { address, reason },
            Err(late) => late,
        };
    }
    Err(last)
}

/// Sets up TLS if the scheme is https. The certificate must be for the URL's host, whatever address was dialled.
pub(super) async fn secure(
    stream: Metered<TcpStream>,
    origin: &Origin,
    tls: &Tls,
    deadline: Deadline,
) -> Result<Stream, RequestErrorKind> {
    if origin.scheme() == Scheme::Http {
        return Ok(Either::Left(stream));
    }
    let name = origin.host().server_name();
    let handshake = TlsConnector::from(tls.config()).connect(name, stream);
    match deadline.hold(RequestPhase::Tls, handshake).await? {
        Ok(stream) => Ok(Either::Right(stream)),
        Err(error) => Err(TlsProblem::of(&error).into()),
    }
}

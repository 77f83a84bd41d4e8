//! An HTTP listener with connection limits, which axum's own server lacks; with TLS and HTTP/2 for those that want it.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::future;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::ConnectInfo;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Request, Response, Version};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::server::conn::{http1, http2};
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use podloom_turns::lock;
use podloom_webhook::network;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_io_timeout::TimeoutWriter;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// The limits of a listener.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionLimits {
    /// The maximum number of open connections.
    pub(super) connections: usize,
    /// The maximum per peer: an IPv4 address or an IPv6 /64 network, since one machine often owns a whole /64. If all calls come from
    /// few addresses, as those of webhooks do, set it to `connections`.
    pub(super) of_one_peer: usize,
    /// What happens to a connection above the maximum.
    pub(super) when_full: WhenFull,
    /// Whether a connection stays open for the next request.
    pub(super) is_reused: bool,
    /// How long to wait for the header of a request, including the pause before it.
    pub(super) header: Duration,
    /// How long a connection may take nothing of what is written to it.
    pub(super) write: Duration,
    /// How long a peer may take to read an answer to its end; [`Duration::MAX`] for ever, if there are answers without end. Then its
    /// connection is closed, with all other answers on it.
    pub(super) read: Duration,
    /// How long a connection may stay open; [`Duration::MAX`] for ever. The request that is being answered at that time may finish.
    pub(super) life: Duration,
    /// How long requests that are being answered may still take when the server stops or their connection's time is up.
    pub(super) last: Duration,
}

/// Which connection is closed when there are too many. A new connection never waits for a free slot: it could wait for a malicious
/// peer for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WhenFull {
    /// The new one.
    RefuseNew,
    /// The oldest one that has not sent a request header yet; if the peer's own maximum is reached, the oldest one of that peer.
    /// If all have sent one, the new one.
    ///
    /// For peers that send their request at once, as probes do. So silent peers cannot lock them out, not even from the same address,
    /// as behind a NAT.
    CloseOldestSilent,
    /// One without a request that is being answered, of the peer that has the most connections: first the oldest that never sent a
    /// request, then the oldest. If another peer has the most and all of its connections are busy, its oldest. So nobody can keep
    /// others out, however many connections he opens.
    ///
    /// For peers that keep connections open for later, as the API server does: a client that closes a connection itself loses no
    /// request, but a request that arrives while we close is lost. So idle connections are closed only for others.
    CloseOldestIdle,
}

const HEADER_BYTES: usize = 16 << 10;
const HEADER_LIST_BYTES: u32 = 16 << 10;
/// The kernel's buffer of a connection, in each direction. It counts as the container's memory, and without a limit it grows to
/// megabytes for each peer that sends and never reads.
const SOCKET_BYTES: u32 = 64 << 10;
/// How many connections may wait to be accepted; the same as for tokio's own listener.
const BACKLOG: u32 = 1024;
/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// HTTP/2: how many requests of one connection are answered at once, and how it is found out that the peer is gone.
const STREAMS: u32 = 32;
/// How much of an answer waits for its peer to make room.
const SEND_BYTES: usize = 16 << 10;
/// How long an HTTP/2 connection lives. Clients follow to another connection without losing a request.
const HTTP2_LIFE: Duration = Duration::from_secs(60);
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// How long to wait after a failed accept. Its causes pass, such as too many open files.
const AFTER_ERROR: Duration = Duration::from_millis(200);
/// The shortest time between two warnings about too many connections.
const BETWEEN_WARNINGS: Duration = Duration::from_secs(60);

/// Opens a listener whose connections have small kernel buffers. The error names the address.
pub(super) fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listen = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.set_reuseaddr(true)?;
        // Accepted connections inherit the buffer sizes.
        socket.set_send_buffer_size(SOCKET_BYTES)?;
        socket.set_recv_buffer_size(SOCKET_BYTES)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listen().with_context(|| format!("cannot listen on {address}"))
}

/// One listener, and everything that its connections need.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) router: Router,
    pub(super) limits: ConnectionLimits,
    /// With it HTTP/1.1 or HTTP/2 over TLS is spoken, else HTTP/1.1.
    pub(super) tls: Option<Arc<ServerConfig>>,
    /// When it is cancelled, clients are asked to connect to another server: HTTP/1.1 connections close after their next answer, those
    /// of HTTP/2 take no new requests. New connections are still accepted, since clients may know no other server yet.
    pub(super) drain: CancellationToken,
    /// When it is cancelled, no connection is accepted any more and idle ones are closed.
    pub(super) end: CancellationToken,
}

impl Server {
    /// Serves until it is stopped, then finishes the requests that are being answered.
    pub(super) async fn serve(self, listener: TcpListener) {
        let acceptor = Acceptor::new(self.limits);
        let mut warned: Option<Instant> = None;
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let accepted = tokio::select! {
                () = self.end.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let (guard, was_full) = acceptor.admit(peer.ip());
                    if was_full && warned.is_none_or(|at| at.elapsed() > BETWEEN_WARNINGS) {
                        tracing::warn!(peer = %peer.ip(), limits = ?self.limits, "too many connections");
                        warned = Some(Instant::now());
                    }
                    let Some(guard) = guard else { continue };
                    connections.spawn(self.clone().answer(stream, peer, guard));
                    // A request that has arrived already is read first, so that its connection is not closed for a newer one.
                    yield_now().await;
                }
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection");
                    sleep(AFTER_ERROR).await;
                }
            }
        }
        // Closed, so that clients are refused at once and do not wait for an answer.
        drop(listener);
        // Each ends by itself, since `end` was cancelled.
        let ended = async { while connections.join_next().await.is_some() {} };
        let _ = timeout(self.limits.last, ended).await;
    }

    /// Answers the requests of one connection until the peer closes it, its time is up, the server stops, or a newer connection
    /// replaces it.
    async fn answer(self, stream: TcpStream, peer: SocketAddr, guard: ConnectionGuard) {
        let closed = guard.closed.clone();
        // An answer is one write, so nothing is gained by waiting for more to send.
        let _ = stream.set_nodelay(true);
        let mut stream = TimeoutWriter::new(stream);
        stream.set_timeout(Some(self.limits.write));
        let stream = Box::pin(stream);
        let answered = async {
            match self.tls.clone() {
                None => self.http1(stream, peer, guard).await,
                Some(config) => {
                    let handshake = TlsAcceptor::from(config).accept(stream);
                    // Errors of the peer are ignored.
                    let Ok(Ok(stream)) = timeout(HANDSHAKE, handshake).await else {
                        return;
                    };
                    match stream.get_ref().1.alpn_protocol() {
                        Some(b"h2") => self.http2(stream, peer, guard).await,
                        _ => self.http1(stream, peer, guard).await,
                    }
                }
            }
        };
        tokio::select! {
            () = answered => {}
            () = closed.cancelled() => {}
        }
    }

    async fn http1(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: SocketAddr,
        guard: ConnectionGuard,
    ) {
        let unread = Arc::default();
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header)
            .max_buf_size(HEADER_BYTES)
            .keep_alive(self.limits.is_reused)
            .serve_connection(TokioIo::new(stream), self.service(peer, guard, &unread));
        // Until then it closes after its next answer, see `service`.
        let (life, end) = (self.limits.life, &self.end);
        self.drive(connection, &unread, (life, end)).await;
    }

    async fn http2(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: SocketAddr,
        guard: ConnectionGuard,
    ) {
        let unread = Arc::default();
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(HEADER_LIST_BYTES)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .max_send_buf_size(SEND_BYTES)
            .serve_connection(TokioIo::new(stream), self.service(peer, guard, &unread));
        let life = self.limits.life.min(HTTP2_LIFE);
        // One that is new while the server drains may serve: its client may know no other.
        let end = match self.drain.is_cancelled() {
            true => &self.end,
            false => &self.drain,
        };
        self.drive(connection, &unread, (life, end)).await;
    }

    /// Answers requests until the connection ends by itself, or its time is up, or it is asked to end and its last requests are
    /// answered. If an answer was not read in time, no new request begins, and the others on it have a moment to end.
    async fn drive<C: GracefulConnection>(
        &self,
        connection: C,
        unread: &Unread,
        (life, end): (Duration, &CancellationToken),
    ) {
        let mut connection = pin!(connection);
        let last = tokio::select! {
            // After a pause of this process, the peer may read before the clock decides.
            biased;
            // Errors of the peer are ignored.
            _ = connection.as_mut() => return,
            () = sleep(life) => self.limits.last,
            () = end.cancelled() => self.limits.last,
            () = unread.overdue(self.limits.read) => self.limits.read.min(self.limits.last),
        };
        connection.as_mut().graceful_shutdown();
        let _ = timeout(last, connection).await;
    }

    /// The router, with what it needs to know about the connection.
    fn service(
        &self,
        peer: SocketAddr,
        guard: ConnectionGuard,
        unread: &Arc<Unread>,
    ) -> impl HttpService<Incoming, ResBody = Watched, Error = Infallible, Future: Send> + use<>
    {
        let (guard, unread) = (Arc::new(guard), Arc::clone(unread));
        let (router, drain) = (self.router.clone(), self.drain.clone());
        service_fn(move |mut request: Request<Incoming>| {
            let (answering, router) = (guard.begin_request(), router.clone());
            let (drain, unread) = (drain.clone(), Arc::clone(&unread));
            async move {
                let version = request.version();
                request.extensions_mut().insert(ConnectInfo(peer));
                let mut response: Response<Body> = router.oneshot(request).await?;
                drop(answering);
                if version < Version::HTTP_2 && drain.is_cancelled() {
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(CONNECTION, close);
                }
                Ok(unread.watch(response))
            }
        })
    }
}

/// Decides which connections are accepted, and which one is closed for another.
struct Acceptor {
    limits: ConnectionLimits,
    open: Arc<Mutex<OpenConnections>>,
}

#[derive(Default)]
struct OpenConnections {
    /// By increasing numbers, so the first is the oldest.
    all: BTreeMap<u64, Connection>,
    next: u64,
    by_peer: HashMap<IpAddr, usize>,
}

struct Connection {
    peer: IpAddr,
    /// How many requests are being answered: those of HTTP/2 share a connection. None until the first one arrives.
    requests: Option<usize>,
    closed: CancellationToken,
}

/// Counts a connection as open until it is dropped, or until `closed` is cancelled.
struct ConnectionGuard {
    number: u64,
    closed: CancellationToken,
    open: Arc<Mutex<OpenConnections>>,
}

impl Acceptor {
    fn new(limits: ConnectionLimits) -> Self {
        Self {
            limits,
            open: Arc::default(),
        }
    }

    /// Accepts a connection if the limits allow it, or if another one can be closed for it; and says whether a limit was reached.
    fn admit(&self, address: IpAddr) -> (Option<ConnectionGuard>, bool) {
        let peer = network(address);
        let mut open = lock(&self.open);
        let of_peer = open.by_peer.get(&peer).copied().unwrap_or_default();
        let full_of_peer = of_peer >= self.limits.of_one_peer;
        let full = full_of_peer || open.all.len() >= self.limits.connections;
        let has_room = !full
            || match self.limits.when_full {
                WhenFull::RefuseNew => false,
                WhenFull::CloseOldestSilent => {
                    open.close_oldest(full_of_peer.then_some(peer), |requests| requests.is_none())
                }
                WhenFull::CloseOldestIdle => open.close_idle_for(peer, full_of_peer),
            };
        let guard = has_room.then(|| {
            let (number, closed) = open.add(peer);
            ConnectionGuard {
                number,
                closed,
                open: Arc::clone(&self.open),
            }
        });
        (guard, full)
    }
}

impl OpenConnections {
    fn add(&mut self, peer: IpAddr) -> (u64, CancellationToken) {
        let number = self.next;
        let closed = CancellationToken::new();
        let connection = Connection {
            peer,
            requests: None,
            closed: closed.clone(),
        };
        self.next += 1;
        self.all.insert(number, connection);
        *self.by_peer.entry(peer).or_default() += 1;
        (number, closed)
    }

    /// Closes the oldest connection with such requests, of this peer or of all. Returns false if there is none.
    fn close_oldest(
        &mut self,
        of: Option<IpAddr>,
        is_such: impl Fn(Option<usize>) -> bool,
    ) -> bool {
        let oldest = self.all.iter().find(|(_, connection)| {
            is_such(connection.requests) && of.is_none_or(|peer| peer == connection.peer)
        });
        let Some((&number, connection)) = oldest else {
            return false;
        };
        connection.closed.cancel();
        self.remove(number);
        true
    }

    /// Closes a connection of the peer that has the most. Returns false if that is this peer, and all of its connections are busy.
    fn close_idle_for(&mut self, peer: IpAddr, full_of_peer: bool) -> bool {
        let largest = self.by_peer.iter().max_by_key(|(_, count)| **count);
        let of = match largest {
            Some((&largest, _)) if !full_of_peer => largest,
            _ => peer,
        };
        self.close_oldest(Some(of), |requests| requests.is_none())
            || self.close_oldest(Some(of), |requests| requests == Some(0))
            || (of != peer && self.close_oldest(Some(of), |_| true))
    }

    /// Does nothing if it was removed before.
    fn remove(&mut self, number: u64) {
        let Some(Connection { peer, .. }) = self.all.remove(&number) else {
            return;
        };
        match self.by_peer.get_mut(&peer) {
            Some(of_peer) if *of_peer > 1 => *of_peer -= 1,
            _ => drop(self.by_peer.remove(&peer)),
        }
    }
}

impl ConnectionGuard {
    /// Notes that a request has arrived, which is being answered until the returned value is dropped. Meanwhile the connection is not
    /// closed for a newer one.
    fn begin_request(self: &Arc<Self>) -> RequestGuard {
        self.count(|requests| requests + 1);
        RequestGuard(Arc::clone(self))
    }

    fn count(&self, change: impl Fn(usize) -> usize) {
        if let Some(connection) = lock(&self.open).all.get_mut(&self.number) {
            connection.requests = Some(change(connection.requests.unwrap_or_default()));
        }
    }
}

/// Counts a request as being answered until it is dropped.
struct RequestGuard(Arc<ConnectionGuard>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.count(|requests| requests.saturating_sub(1));
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        lock(&self.open).remove(self.number);
    }
}

/// The answers of one connection that its peer has not read to the end.
///
/// A peer of HTTP/2 decides how much of an answer it takes, and may take nothing for ever while its connection is well. Nothing in hyper
/// ends that: it waits for room, and does not look at the clock.
#[derive(Default)]
struct Unread {
    /// Since when, by increasing numbers, so the first is the oldest.
    since: Mutex<BTreeMap<u64, Instant>>,
    next: AtomicU64,
    /// The first answer is there.
    begun: Notify,
}

impl Unread {
    /// Watches an answer, from now until its last byte was handed to the connection, or nobody wants it any more.
    fn watch(self: &Arc<Self>, response: Response<Body>) -> Response<Watched> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.since).insert(number, Instant::now());
        self.begun.notify_one();
        let answer = Arc::new(Answer {
            number,
            unread: Arc::clone(self),
        });
        response.map(|body| Watched { body, answer })
    }

    /// Waits until an answer was not read in time.
    async fn overdue(&self, limit: Duration) {
        loop {
            let Some((number, since)) = self.oldest() else {
                self.begun.notified().await;
                continue;
            };
            match since.checked_add(limit) {
                None => future::pending().await,
                Some(end) => sleep_until(end).await,
            }
            if self.oldest().is_some_and(|(oldest, _)| oldest == number) {
                return;
            }
        }
    }

    fn oldest(&self) -> Option<(u64, Instant)> {
        let since = lock(&self.since);
        let oldest = since.first_key_value();
        oldest.map(|(number, since)| (*number, *since))
    }
}

/// An answer that is not sent yet. Each part of it that waits keeps this.
struct Answer {
    number: u64,
    unread: Arc<Unread>,
}

impl Drop for Answer {
    fn drop(&mut self) {
        lock(&self.unread.since).remove(&self.number);
    }
}

/// The body of an answer that is watched.
struct Watched {
    body: Body,
    answer: Arc<Answer>,
}

/// A part of an answer, on its way.
struct Part {
    bytes: Bytes,
    _answer: Arc<Answer>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let answer = &self.answer;
        polled.map_ok(|frame| {
            frame.map_data(|bytes| {
                let _answer = Arc::clone(answer);
                Bytes::from_owner(Part { bytes, _answer })
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;

//! An HTTP listener with connection limits, which axum's own server lacks; with TLS and HTTP/2 for those that want it.

mod acceptor;
mod unread;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Request, Response, Version};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep, timeout};
use tokio_io_timeout::TimeoutWriter;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use self::acceptor::{Acceptor, ConnectionGuard};
use self::unread::{Unread, Watched};

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
    /// What happens to a connection after an answer.
    pub(super) reuse: Reuse,
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

/// What is spoken on a listener's connections.
#[derive(Clone)]
pub(super) enum Transport {
    /// HTTP/1.1.
    Plain,
    /// HTTP/1.1 or HTTP/2 over TLS.
    Tls(Arc<ServerConfig>),
}

/// How a listener stops.
#[derive(Clone)]
pub(super) struct Stop {
    /// When it is cancelled, clients are asked to connect to another server: HTTP/1.1 connections close after their next answer, those
    /// of HTTP/2 take no new requests. New connections are still accepted, since clients may know no other server yet.
    pub(super) drain: CancellationToken,
    /// When it is cancelled, no connection is accepted any more and idle ones are closed.
    pub(super) end: CancellationToken,
}

impl Stop {
    /// Stops without asking before.
    pub(super) fn at_once(end: CancellationToken) -> Self {
        Self {
            drain: end.clone(),
            end,
        }
    }
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

/// What happens to a connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reuse {
    /// It stays open for the next request.
    Reused,
    /// It is closed.
    Closed,
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

/// Opens a listener whose connections have small kernel buffers.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
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
}

/// One listener, and everything that its connections need.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) router: Router,
    pub(super) limits: ConnectionLimits,
    pub(super) transport: Transport,
    pub(super) stop: Stop,
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
                () = self.stop.end.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let admission = acceptor.admit(peer.ip());
                    if admission.was_full && warned.is_none_or(|at| at.elapsed() > BETWEEN_WARNINGS)
                    {
                        tracing::warn!(%peer, limits = ?self.limits, "too many connections");
                        warned = Some(Instant::now());
                    }
                    let Some(guard) = admission.guard else {
                        continue;
                    };
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
            match self.transport.clone() {
                Transport::Plain => self.http1(stream, peer, guard).await,
                Transport::Tls(config) => {
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
            .keep_alive(self.limits.reuse == Reuse::Reused)
            .serve_connection(TokioIo::new(stream), self.service(peer, guard, &unread));
        // Until then it closes after its next answer, see `service`.
        let (life, end) = (self.limits.life, &self.stop.end);
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
        let end = match self.stop.drain.is_cancelled() {
            true => &self.stop.end,
            false => &self.stop.drain,
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
        let answering = async {
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
        };
        answering.await;
    }

    /// The router, with what it needs to know about the connection.
    fn service(
        &self,
        peer: SocketAddr,
        guard: ConnectionGuard,
        unread: &Arc<Unread>,
    ) -> impl HttpService<Incoming, ResBody = Watched, Error = Infallible, Future: Send> + use<>
    {
        let (guard, router, drain) = (
            Arc::new(guard),
            self.router.clone(),
            self.stop.drain.clone(),
        );
        let unread = Arc::clone(unread);
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

#[cfg(test)]
mod tests;

//! Accepts connections, within limits that axum's own server does not have.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_io_timeout::TimeoutWriter;
use tokio_util::sync::CancellationToken;

/// What a listener accepts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// How many connections may be open. One more is closed at once: to wait for room could mean to wait for a bad peer.
    pub(super) connections: usize,
    /// How many of them one address may have. Where all calls come from few addresses, as those of webhooks do, it is
    /// `connections`.
    pub(super) of_one_peer: usize,
    /// What happens after an answer.
    pub(super) reuse: Reuse,
    /// How long a peer may take for the header of a request, and for the pause before it.
    pub(super) header: Duration,
    /// How long a peer may leave an answer unread.
    pub(super) write: Duration,
    /// How long a connection may be open. A request that is being answered then may end.
    pub(super) life: Duration,
}

/// What happens to a connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reuse {
    /// It takes the next request.
    Reused,
    /// It is closed.
    Closed,
}

const HEADER_BYTES: usize = 16 << 10;
/// What the kernel keeps for a connection, each way. It counts as memory of the container, and would grow to megabytes for
/// each peer that sends and never reads.
const SOCKET_BYTES: u32 = 64 << 10;
/// Connections that were not accepted yet; as many as tokio's own listener has.
const BACKLOG: u32 = 1024;
/// How long requests that are being answered may take after the end of the server or of their connection.
const LAST_REQUESTS: Duration = Duration::from_secs(2);
/// Too many open files, for example: it passes.
const AFTER_ERROR: Duration = Duration::from_millis(200);
/// How often the log says that connections are refused.
const BETWEEN_WARNINGS: Duration = Duration::from_secs(60);

/// Listens on an address, with small buffers for each connection.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    // Accepted connections inherit them.
    socket.set_send_buffer_size(SOCKET_BYTES)?;
    socket.set_recv_buffer_size(SOCKET_BYTES)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves until the end is asked for, and finishes what is being answered.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    end: CancellationToken,
) {
    let room = Room::new(limits);
    let mut warned: Option<Instant> = None;
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let accepted = tokio::select! {
            () = end.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let Some(place) = room.enter(peer.ip()) else {
                    if warned.is_none_or(|at| at.elapsed() > BETWEEN_WARNINGS) {
                        tracing::warn!(%peer, ?limits, "too many connections, refusing new ones");
                        warned = Some(Instant::now());
                    }
                    continue;
                };
                let service = router.clone().layer(Extension(ConnectInfo(peer)));
                let end = end.clone();
                connections.spawn(async move {
                    answer(stream, service, limits, end).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                sleep(AFTER_ERROR).await;
            }
        }
    }
    // Each ends by itself, since `end` was asked for.
    let ended = async { while connections.join_next().await.is_some() {} };
    let _ = timeout(LAST_REQUESTS, ended).await;
}

/// Answers the requests of one connection until the peer, its time or the server ends it.
async fn answer(stream: TcpStream, service: Router, limits: Limits, end: CancellationToken) {
    let mut stream = TimeoutWriter::new(stream);
    stream.set_timeout(Some(limits.write));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header)
        .max_buf_size(HEADER_BYTES)
        .keep_alive(limits.reuse == Reuse::Reused)
        .serve_connection(
            TokioIo::new(Box::pin(stream)),
            TowerToHyperService::new(service),
        );
    let mut connection = pin!(connection);
    tokio::select! {
        // What a peer does wrong is its own trouble.
        _ = connection.as_mut() => return,
        () = sleep(limits.life) => {}
        () = end.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(LAST_REQUESTS, connection).await;
}

/// Who is connected.
struct Room {
    limits: Limits,
    open: Arc<Mutex<Open>>,
}

#[derive(Default)]
struct Open {
    all: usize,
    by_peer: HashMap<IpAddr, usize>,
}

/// A connection that counts until this is dropped.
struct Place {
    peer: IpAddr,
    open: Arc<Mutex<Open>>,
}

impl Room {
    fn new(limits: Limits) -> Self {
        Self {
            limits,
            open: Arc::default(),
        }
    }

    /// Counts a connection; none if there are too many, or too many of this peer.
    fn enter(&self, peer: IpAddr) -> Option<Place> {
        let peer = peer.to_canonical();
        let mut open = lock(&self.open);
        let of_peer = open.by_peer.get(&peer).copied().unwrap_or_default();
        if open.all >= self.limits.connections || of_peer >= self.limits.of_one_peer {
            return None;
        }
        open.all += 1;
        open.by_peer.insert(peer, of_peer + 1);
        Some(Place {
            peer,
            open: Arc::clone(&self.open),
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = lock(&self.open);
        open.all = open.all.saturating_sub(1);
        let of_peer = open.by_peer.get(&self.peer).copied().unwrap_or_default();
        match of_peer {
            0 | 1 => open.by_peer.remove(&self.peer),
            more => open.by_peer.insert(self.peer, more - 1),
        };
    }
}

fn lock(open: &Mutex<Open>) -> MutexGuard<'_, Open> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;

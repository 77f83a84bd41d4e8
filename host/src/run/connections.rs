//! An HTTP listener with connection limits, which axum's own server lacks.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep, timeout};
use tokio_io_timeout::TimeoutWriter;
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
    /// What happens to a connection after an answer.
    pub(super) reuse: Reuse,
    /// How long to wait for the header of a request, including the pause before it.
    pub(super) header: Duration,
    /// How long a peer may leave an answer unread.
    pub(super) write: Duration,
    /// How long a connection may stay open. The request that is being answered at that time may finish.
    pub(super) life: Duration,
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
/// The kernel's buffer of a connection, in each direction. It counts as the container's memory, and without a limit it grows to
/// megabytes for each peer that sends and never reads.
const SOCKET_BYTES: u32 = 64 << 10;
/// How many connections may wait to be accepted; the same as for tokio's own listener.
const BACKLOG: u32 = 1024;
/// How long a request that is being answered may still take when the server stops or its connection's time is up.
const LAST_REQUESTS: Duration = Duration::from_secs(2);
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

/// Serves until `end` is cancelled, then finishes the requests that are being answered.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: ConnectionLimits,
    end: CancellationToken,
) {
    let acceptor = Acceptor::new(limits);
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
                let admission = acceptor.admit(peer.ip());
                if admission.was_full && warned.is_none_or(|at| at.elapsed() > BETWEEN_WARNINGS) {
                    tracing::warn!(%peer, ?limits, "too many connections");
                    warned = Some(Instant::now());
                }
                let Some(guard) = admission.guard else {
                    continue;
                };
                let answering = answer((stream, peer), router.clone(), guard, limits, end.clone());
                connections.spawn(answering);
                // A request that has arrived already is read first, so that its connection is not closed for a newer one.
                yield_now().await;
            }
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                sleep(AFTER_ERROR).await;
            }
        }
    }
    // Each ends by itself, since `end` was cancelled.
    let ended = async { while connections.join_next().await.is_some() {} };
    let _ = timeout(LAST_REQUESTS, ended).await;
}

/// Answers the requests of one connection until the peer closes it, its time is up, the server stops, or a newer connection replaces
/// it.
async fn answer(
    (stream, peer): (TcpStream, SocketAddr),
    router: Router,
    guard: ConnectionGuard,
    limits: ConnectionLimits,
    end: CancellationToken,
) {
    let mut stream = TimeoutWriter::new(stream);
    stream.set_timeout(Some(limits.write));
    let closed = guard.closed.clone();
    let guard = Arc::new(guard);
    let service = router.map_request(move |mut request: Request<Incoming>| {
        guard.note_request();
        request.extensions_mut().insert(ConnectInfo(peer));
        request
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header)
        .max_buf_size(HEADER_BYTES)
        .keep_alive(limits.reuse == Reuse::Reused)
        .serve_connection(
            TokioIo::new(Box::pin(stream)),
            TowerToHyperService::new(service),
        );
    let answered = async {
        let mut connection = pin!(connection);
        tokio::select! {
            // Errors of the peer are ignored.
            _ = connection.as_mut() => return,
            () = sleep(limits.life) => {}
            () = end.cancelled() => {}
        }
        connection.as_mut().graceful_shutdown();
        let _ = timeout(LAST_REQUESTS, connection).await;
    };
    tokio::select! {
        () = answered => {}
        () = closed.cancelled() => {}
    }
}

/// Decides which connections are accepted.
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
    has_sent_request: bool,
    closed: CancellationToken,
}

/// The decision about a new connection.
struct Admission {
    /// None if the connection is refused.
    guard: Option<ConnectionGuard>,
    /// Whether a limit was reached: the connection is refused, or another one was closed for it.
    was_full: bool,
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

    /// Accepts a connection if the limits allow it, or if another one can be closed for it.
    fn admit(&self, address: IpAddr) -> Admission {
        let peer = network(address);
        let mut open = lock(&self.open);
        let of_peer = open.by_peer.get(&peer).copied().unwrap_or_default();
        let full_of_peer = of_peer >= self.limits.of_one_peer;
        let full = full_of_peer || open.all.len() >= self.limits.connections;
        let has_room = !full
            || match self.limits.when_full {
                WhenFull::RefuseNew => false,
                WhenFull::CloseOldestSilent => open.close_oldest(full_of_peer.then_some(peer)),
            };
        let guard = has_room.then(|| {
            let (number, closed) = open.add(peer);
            ConnectionGuard {
                number,
                closed,
                open: Arc::clone(&self.open),
            }
        });
        Admission {
            guard,
            was_full: full,
        }
    }
}

impl OpenConnections {
    fn add(&mut self, peer: IpAddr) -> (u64, CancellationToken) {
        let number = self.next;
        let closed = CancellationToken::new();
        let connection = Connection {
            peer,
            has_sent_request: false,
            closed: closed.clone(),
        };
        self.next += 1;
        self.all.insert(number, connection);
        *self.by_peer.entry(peer).or_default() += 1;
        (number, closed)
    }

    /// Closes the oldest connection without a request, of this peer or of all. Returns false if there is none.
    fn close_oldest(&mut self, of: Option<IpAddr>) -> bool {
        let oldest = self.all.iter().find(|(_, connection)| {
            !connection.has_sent_request && of.is_none_or(|peer| peer == connection.peer)
        });
        let Some((&number, connection)) = oldest else {
            return false;
        };
        connection.closed.cancel();
        self.remove(number);
        true
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
    /// Notes that the peer has sent a request: from now on the connection is not closed for a newer one.
    fn note_request(&self) {
        if let Some(connection) = lock(&self.open).all.get_mut(&self.number) {
            connection.has_sent_request = true;
        }
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        lock(&self.open).remove(self.number);
    }
}

/// The peer of an address: the address itself, or its /64 network for IPv6.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from(network))
        }
        address @ IpAddr::V4(_) => address,
    }
}

fn lock(open: &Mutex<OpenConnections>) -> MutexGuard<'_, OpenConnections> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;

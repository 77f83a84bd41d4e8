//! Accepts connections, within limits that axum's own server does not have.

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

/// What a listener accepts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// How many connections may be open.
    pub(super) connections: usize,
    /// How many of them one address may have, or one /64 network of IPv6: a single machine often has all addresses of such a
    /// network. Where all calls come from few addresses, as those of webhooks do, it is `connections`.
    pub(super) of_one_peer: usize,
    /// What happens to one connection more.
    pub(super) when_full: WhenFull,
    /// What happens after an answer.
    pub(super) reuse: Reuse,
    /// How long a peer may take for the header of a request, and for the pause before it.
    pub(super) header: Duration,
    /// How long a peer may leave an answer unread.
    pub(super) write: Duration,
    /// How long a connection may be open. A request that is being answered then may end.
    pub(super) life: Duration,
}

/// Which connection is closed when there is one too many. None ever waits for room, as that could mean to wait for a bad peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WhenFull {
    /// The new one.
    RefuseNew,
    /// The oldest that has not yet sent the header of a request, if there is one: of the same peer, where the peer has too many.
    /// It suits peers that send their request as soon as they are connected, as probes do. Silent peers then cannot keep them
    /// out, even from their own address, as behind a NAT.
    CloseOldestSilent,
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
/// How often the log says that there are too many connections.
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
                let entered = room.enter(peer.ip());
                if entered.full && warned.is_none_or(|at| at.elapsed() > BETWEEN_WARNINGS) {
                    tracing::warn!(%peer, ?limits, "too many connections");
                    warned = Some(Instant::now());
                }
                let Some(place) = entered.place else {
                    continue;
                };
                let answering = answer((stream, peer), router.clone(), place, limits, end.clone());
                connections.spawn(answering);
                // A request that has arrived already is read before the connection could be closed for a newer one.
                yield_now().await;
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

/// Answers the requests of one connection until the peer, its time, the server or a newer connection ends it.
async fn answer(
    (stream, peer): (TcpStream, SocketAddr),
    router: Router,
    place: Place,
    limits: Limits,
    end: CancellationToken,
) {
    let mut stream = TimeoutWriter::new(stream);
    stream.set_timeout(Some(limits.write));
    let closed = place.closed.clone();
    let place = Arc::new(place);
    let service = router.map_request(move |mut request: Request<Incoming>| {
        place.has_asked();
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
            // What a peer does wrong is its own trouble.
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

/// Who is connected.
struct Room {
    limits: Limits,
    open: Arc<Mutex<Open>>,
}

#[derive(Default)]
struct Open {
    /// Their numbers grow: the first is the oldest.
    all: BTreeMap<u64, Connection>,
    next: u64,
    by_peer: HashMap<IpAddr, usize>,
}

struct Connection {
    peer: IpAddr,
    has_asked: bool,
    closed: CancellationToken,
}

/// What a new connection finds.
struct Entered {
    /// None if it is refused.
    place: Option<Place>,
    /// Whether it was refused, or another was closed for it.
    full: bool,
}

/// A connection that counts until this is dropped or `closed`.
struct Place {
    number: u64,
    closed: CancellationToken,
    open: Arc<Mutex<Open>>,
}

impl Room {
    fn new(limits: Limits) -> Self {
        Self {
            limits,
            open: Arc::default(),
        }
    }

    /// Counts a connection, if there is room for it or room can be made.
    fn enter(&self, address: IpAddr) -> Entered {
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
        let place = has_room.then(|| {
            let (number, closed) = open.add(peer);
            Place {
                number,
                closed,
                open: Arc::clone(&self.open),
            }
        });
        Entered { place, full }
    }
}

impl Open {
    fn add(&mut self, peer: IpAddr) -> (u64, CancellationToken) {
        let number = self.next;
        let closed = CancellationToken::new();
        let connection = Connection {
            peer,
            has_asked: false,
            closed: closed.clone(),
        };
        self.next += 1;
        self.all.insert(number, connection);
        *self.by_peer.entry(peer).or_default() += 1;
        (number, closed)
    }

    /// Closes the oldest that has sent no request, of this peer or of all; false if there is none.
    fn close_oldest(&mut self, of: Option<IpAddr>) -> bool {
        let oldest = self.all.iter().find(|(_, connection)| {
            !connection.has_asked && of.is_none_or(|peer| peer == connection.peer)
        });
        let Some((&number, connection)) = oldest else {
            return false;
        };
        connection.closed.cancel();
        self.remove(number);
        true
    }

    /// Does nothing for one that was removed before.
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

impl Place {
    /// From now on it is not closed for a newer one.
    fn has_asked(&self) {
        if let Some(connection) = lock(&self.open).all.get_mut(&self.number) {
            connection.has_asked = true;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.open).remove(self.number);
    }
}

/// What counts as one peer: the address, or the /64 network of an address of version 6.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from(network))
        }
        address @ IpAddr::V4(_) => address,
    }
}

fn lock(open: &Mutex<Open>) -> MutexGuard<'_, Open> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;

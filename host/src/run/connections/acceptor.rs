//! Decides which connections are accepted, and which one is closed for another.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use podloom_turns::lock;
use podloom_webhook::network;
use tokio_util::sync::CancellationToken;

use super::{ConnectionLimits, WhenFull};

/// Decides which connections are accepted.
pub(super) struct Acceptor {
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
    use_: Use,
    closed: CancellationToken,
}

/// What a connection is used for at the moment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// No request has arrived yet.
    Silent,
    /// This many requests are being answered. Those of HTTP/2 share a connection.
    Answering(usize),
}

/// The decision about a new connection.
pub(super) struct Admission {
    /// None if the connection is refused.
    pub(super) guard: Option<ConnectionGuard>,
    /// Whether a limit was reached: the connection is refused, or another one was closed for it.
    pub(super) was_full: bool,
}

/// Counts a connection as open until it is dropped, or until `closed` is cancelled.
pub(super) struct ConnectionGuard {
    number: u64,
    pub(super) closed: CancellationToken,
    open: Arc<Mutex<OpenConnections>>,
}

impl Acceptor {
    pub(super) fn new(limits: ConnectionLimits) -> Self {
        Self {
            limits,
            open: Arc::default(),
        }
    }

    /// Accepts a connection if the limits allow it, or if another one can be closed for it.
    pub(super) fn admit(&self, address: IpAddr) -> Admission {
        let peer = network(address);
        let mut open = lock(&self.open);
        let of_peer = open.by_peer.get(&peer).copied().unwrap_or_default();
        let full_of_peer = of_peer >= self.limits.of_one_peer;
        let full = full_of_peer || open.all.len() >= self.limits.connections;
        let has_room = !full
            || match self.limits.when_full {
                WhenFull::RefuseNew => false,
                WhenFull::CloseOldestSilent => {
                    open.close_oldest(full_of_peer.then_some(peer), |use_| use_ == Use::Silent)
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
            use_: Use::Silent,
            closed: closed.clone(),
        };
        self.next += 1;
        self.all.insert(number, connection);
        *self.by_peer.entry(peer).or_default() += 1;
        (number, closed)
    }

    /// Closes the oldest connection with such a use, of this peer or of all. Returns false if there is none.
    fn close_oldest(&mut self, of: Option<IpAddr>, is_such: impl Fn(Use) -> bool) -> bool {
        let oldest = self.all.iter().find(|(_, connection)| {
            is_such(connection.use_) && of.is_none_or(|peer| peer == connection.peer)
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
        self.close_oldest(Some(of), |use_| use_ == Use::Silent)
            || self.close_oldest(Some(of), |use_| use_ == Use::Answering(0))
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
    pub(super) fn begin_request(self: &Arc<Self>) -> RequestGuard {
        self.count(|requests| requests + 1);
        RequestGuard(Arc::clone(self))
    }

    fn count(&self, change: impl Fn(usize) -> usize) {
        if let Some(connection) = lock(&self.open).all.get_mut(&self.number) {
            connection.use_ = Use::Answering(match connection.use_ {
                Use::Silent => change(0),
                Use::Answering(requests) => change(requests),
            });
        }
    }
}

/// Counts a request as being answered until it is dropped.
pub(super) struct RequestGuard(Arc<ConnectionGuard>);

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

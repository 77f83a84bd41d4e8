//! Several servers behind one address.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::Double;

/// A TCP balancer that can lose a backend.
pub struct Balancer(pub(super) Double);

impl Balancer {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Its backends, in the order in which they were given.
    #[must_use]
    pub fn backends(&self) -> Vec<Backend> {
        self.0.ask("/backends")
    }

    /// Gives a backend this part from now on.
    pub fn turn(&self, backend: SocketAddr, turn: Turn) {
        let verb = match turn {
            Turn::Serving => "serve",
            Turn::Draining => "drain",
            Turn::Cut => "cut",
        };
        self.0.steer("POST", &format!("/{verb}/{backend}"), "");
    }
}

/// A backend, and what it does.
#[derive(Debug, PartialEq, Deserialize, Serialize)]
pub struct Backend {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its part.
    pub turn: Turn,
    /// Connections that there are.
    pub open: u64,
    /// Connections that there ever were.
    pub accepted: u64,
}

/// A backend's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Turn {
    /// It gets new connections.
    Serving,
    /// It gets no new connections and keeps those that it has.
    Draining,
    /// It gets none, and those that it had were closed.
    Cut,
}

//! A TCP load balancer: several servers behind one address.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::Double;

/// A TCP load balancer that can drain or cut off a backend.
pub struct Balancer(pub(super) Double);

impl Balancer {
    /// Its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Its backends, in the order of [`Double::balancer`]'s arguments.
    #[must_use]
    pub fn backends(&self) -> Vec<Backend> {
        self.0.ask("/backends")
    }

    /// Puts a backend into this state.
    pub fn set(&self, backend: SocketAddr, state: BackendState) {
        let verb = match state {
            BackendState::Serving => "serve",
            BackendState::Draining => "drain",
            BackendState::Cut => "cut",
        };
        self.0.steer("POST", &format!("/{verb}/{backend}"), "");
    }
}

/// A backend and its connections.
#[derive(Debug, PartialEq, Deserialize, Serialize)]
pub struct Backend {
    /// Its address.
    pub address: SocketAddr,
    /// Whether it gets connections.
    pub state: BackendState,
    /// The number of open connections.
    pub open: u64,
    /// The number of connections since the start.
    pub accepted: u64,
}

/// Whether a backend gets connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendState {
    /// It gets new connections.
    Serving,
    /// It gets no new connections, and keeps the open ones.
    Draining,
    /// It gets no new connections, and the open ones were closed.
    Cut,
}

//! A proxy in front of etcd.

use std::net::SocketAddr;

use super::Double;

/// A proxy in front of etcd that can hold back what watches tell.
pub struct Lag(pub(super) Double);

impl Lag {
    /// Its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Holds back what watches of these keys tell.
    pub fn hold(&self, keys: &[String]) {
        self.steer("/hold", keys);
    }

    /// Tells what was held back of these keys, and what comes next.
    pub fn release(&self, keys: &[String]) {
        self.steer("/release", keys);
    }

    fn steer(&self, path: &str, keys: &[String]) {
        let keys = serde_json::to_string(keys).unwrap();
        self.0.steer("POST", path, &keys);
    }
}

//! The proxy before the API server, which counts requests and injects faults: `podloom-doubles proxy`.
//!
//! [`Rule`]s pick requests and say what goes wrong with them; [`Proxy::silence`] does what a lost network does: connections stay open,
//! and nothing comes through.

mod rule;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use kube::config::Kubeconfig;
use tempfile::TempDir;

use crate::doubles::Double;
pub use rule::{Fault, Requests, Rule};

/// How often which requests came, by verb and resource, and then by the status of the answer.
pub type Counts = BTreeMap<String, BTreeMap<String, u64>>;

/// Among the statuses, what has none (yet).
pub const UNANSWERED: &str = "unanswered";

/// The running proxy; with it go all connections through it.
pub struct Proxy {
    /// Where it listens, on loopback and without TLS.
    pub address: SocketAddr,
    double: Double,
    kubeconfigs: TempDir,
}

impl Proxy {
    /// Starts it before the API server of a kubeconfig.
    #[must_use]
    pub fn start(kubeconfig: &Path) -> Self {
        let kubeconfigs = TempDir::new().unwrap();
        let out = kubeconfigs.path().join("through");
        let arguments = [Path::new("proxy"), Path::new("--kubeconfig"), kubeconfig];
        let arguments = [&arguments[..], &[Path::new("--out"), &out]].concat();
        let double = Double::start(arguments);
        Self {
            address: double.address,
            double,
            kubeconfigs,
        }
    }

    /// Copies a kubeconfig, with this proxy as its server.
    pub fn kubeconfig(&self, original: &Path) -> PathBuf {
        let config = through(Kubeconfig::read_from(original).unwrap(), self.address);
        let path = self.kubeconfigs.path().join(original.file_name().unwrap());
        // Every JSON document is a YAML document.
        std::fs::write(&path, serde_json::to_vec(&config).unwrap()).unwrap();
        path
    }

    /// Replaces all rules; their counting starts at zero.
    pub fn set_rules(&self, rules: &[Rule]) {
        let rules = serde_json::to_string(rules).unwrap();
        self.double.steer("PUT", "/rules", &rules);
    }

    /// How many requests each of the current rules has spoiled.
    pub fn hits(&self) -> Vec<u64> {
        self.double.ask("/hits")
    }

    /// How many requests came, by verb and resource: `create pods`, `patch browsers/status`.
    pub fn counts(&self) -> Counts {
        self.double.ask("/counts")
    }

    /// Of one verb and resource.
    pub fn count(&self, request: &str) -> u64 {
        let counts = self.counts();
        counts.get(request).map_or(0, |codes| codes.values().sum())
    }

    /// Lets the connections that there are stay open and carry nothing more; new ones work.
    pub fn silence(&self) {
        self.double.steer("POST", "/silence", "");
    }

    /// The same for all connections, those that are still to come too.
    pub fn silence_all(&self) {
        self.double.steer("POST", "/silence-all", "");
    }

    /// Lets all connections carry again, and what was held back first.
    pub fn resume(&self) {
        self.double.steer("POST", "/resume", "");
    }

    /// Closes the connections that there are.
    pub fn drop_connections(&self) {
        self.double.steer("POST", "/drop", "");
    }
}

/// A kubeconfig of the same users that leads to a server at this address, which speaks no TLS.
#[must_use]
pub fn through(mut config: Kubeconfig, address: SocketAddr) -> Kubeconfig {
    let clusters = config.clusters.iter_mut();
    for cluster in clusters.flat_map(|named| &mut named.cluster) {
        cluster.server = Some(format!("http://{address}"));
        cluster.certificate_authority_data = None;
    }
    config
}

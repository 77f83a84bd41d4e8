//! A proxy in front of the API server that counts requests and injects faults: `podloom-doubles proxy`.
//!
//! A [`Rule`] selects requests and has the fault to inject. [`Proxy::silence`] simulates a lost network: connections stay open, but
//! carry nothing.

mod rule;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use kube::config::Kubeconfig;
use tempfile::TempDir;

use crate::doubles::Double;
pub use rule::{Fault, RequestFilter, Rule};

/// The number of requests, by verb and resource, and then by the status of the answer.
pub type Counts = BTreeMap<String, BTreeMap<String, u64>>;

/// Stands for the status of requests that were not answered, or not yet.
pub const UNANSWERED: &str = "unanswered";

/// The running proxy. Dropping it closes all connections through it.
pub struct Proxy {
    /// Its address, on loopback and without TLS.
    pub address: SocketAddr,
    double: Double,
    kubeconfigs: TempDir,
}

impl Proxy {
    /// Starts it in front of the API server of a kubeconfig.
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

    /// Replaces all rules; the new ones count from zero.
    pub fn set_rules(&self, rules: &[Rule]) {
        let rules = serde_json::to_string(rules).unwrap();
        self.double.steer("PUT", "/rules", &rules);
    }

    /// How many faults each of the current rules has injected.
    pub fn hits(&self) -> Vec<u64> {
        self.double.ask("/hits")
    }

    /// The number of requests, by verb and resource: `create pods`, `patch browsers/status`.
    pub fn counts(&self) -> Counts {
        self.double.ask("/counts")
    }

    /// The number of requests with one verb and resource.
    pub fn count(&self, request: &str) -> u64 {
        let counts = self.counts();
        counts.get(request).map_or(0, |codes| codes.values().sum())
    }

    /// Lets the open connections stay open but carry nothing more; new ones work.
    pub fn silence(&self) {
        self.double.steer("POST", "/silence", "");
    }

    /// The same for all connections, new ones too.
    pub fn silence_all(&self) {
        self.double.steer("POST", "/silence-all", "");
    }

    /// Lets all connections work again; what was held back is sent first.
    pub fn resume(&self) {
        self.double.steer("POST", "/resume", "");
    }

    /// Closes all open connections.
    pub fn drop_connections(&self) {
        self.double.steer("POST", "/drop", "");
    }
}

/// The same kubeconfig, but with the server at this address, without TLS.
#[must_use]
pub fn through(mut config: Kubeconfig, address: SocketAddr) -> Kubeconfig {
    let clusters = config.clusters.iter_mut();
    for cluster in clusters.flat_map(|named| &mut named.cluster) {
        cluster.server = Some(format!("http://{address}"));
        cluster.certificate_authority_data = None;
    }
    config
}

//! A proxy in front of the API server, or of another HTTP server, that records requests and injects faults: `podloom-doubles proxy`.
//!
//! A [`Rule`] selects requests and has the fault to inject. [`Proxy::silence`] simulates a lost network: connections stay open, but
//! carry nothing.

mod rule;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use http::Method;
use kube::config::Kubeconfig;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::doubles::Double;
use crate::wait::eventually;
pub use rule::{CHANGE, Fault, RequestFilter, Rule};

/// The number of requests, by verb and resource, and then by the status of the answer.
pub type Counts = BTreeMap<String, BTreeMap<String, u64>>;

/// Stands for the status of requests that were not answered, or not yet.
pub const UNANSWERED: &str = "unanswered";

/// A request that reached the proxy.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct ProxiedRequest {
    /// When it arrived, in seconds after the start of the proxy.
    pub seconds: f64,
    /// `GET`, `POST`, ...
    pub method: String,
    /// Path and query, with `{id}` for each part of the path that is a UUID.
    pub path: String,
    /// The status of the answer that the client got; none if it was not answered, or not yet.
    pub status: Option<u16>,
}

impl ProxiedRequest {
    /// Whether it may change anything.
    #[must_use]
    pub fn is_write(&self) -> bool {
        is_write(&self.method)
    }
}

/// Whether requests with this method may change anything.
#[must_use]
pub fn is_write(method: &str) -> bool {
    ![Method::GET.as_str(), Method::HEAD.as_str()].contains(&method)
}

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
        Self::new(Double::start(arguments), kubeconfigs)
    }

    /// Starts it in front of another HTTP server, without TLS. Requests are named by method and path: `GET /infrastructures/{id}`.
    ///
    /// It works whether the server runs or not. A connection for which the server cannot be reached is closed without an answer.
    #[must_use]
    pub fn to(server: SocketAddr) -> Self {
        let double = Double::start(["proxy", "--to", &server.to_string()]);
        Self::new(double, TempDir::new().unwrap())
    }

    fn new(double: Double, kubeconfigs: TempDir) -> Self {
        Self {
            address: double.address,
            double,
            kubeconfigs,
        }
    }

    /// Its URL, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many requests that may change something have arrived.
    #[must_use]
    pub fn writes(&self) -> usize {
        let requests = self.requests();
        requests.iter().filter(|it| it.is_write()).count()
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

    /// The last 10,000 requests, in the order in which they arrived.
    pub fn requests(&self) -> Vec<ProxiedRequest> {
        self.double.ask("/requests")
    }

    /// The number of requests, by verb and resource: `create pods`, `patch browsers/status`.
    pub fn counts(&self) -> Counts {
        self.double.ask("/counts")
    }

    /// The same, whatever the answers were.
    pub fn totals(&self) -> BTreeMap<String, u64> {
        let counts = self.counts().into_iter();
        let totals = counts.map(|(request, codes)| (request, codes.values().sum()));
        totals.collect()
    }

    /// The number of requests with one verb and resource.
    pub fn count(&self, request: &str) -> u64 {
        let counts = self.counts();
        counts.get(request).map_or(0, |codes| codes.values().sum())
    }

    /// The number of requests with one verb and resource that succeeded. An API server may refuse to begin a watch with a list.
    pub fn answered(&self, request: &str) -> u64 {
        let counts = self.counts();
        let codes = counts.get(request);
        codes
            .and_then(|codes| codes.get("200"))
            .copied()
            .unwrap_or_default()
    }

    /// Waits until so many more requests with one verb and resource have arrived.
    pub async fn sees_more(&self, request: &str, more: u64) {
        let enough = self.count(request) + more;
        eventually(&format!("{enough} {request} arrive"), async || {
            let count = self.count(request);
            (count >= enough).then_some(()).ok_or(count.to_string())
        })
        .await;
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

//! A proxy before the API server that injects faults.
//!
//! It forwards every request as it came, with the caller's own token, watches too. [`Rule`]s pick requests and say what goes wrong
//! with them; [`Proxy::silence`] does what a lost network does: connections stay open, and nothing comes through.

mod connection;
mod forward;
mod rule;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use connection::Switchboard;
use forward::Upstream;
use rule::Rules;
pub use rule::{Fault, Requests, Rule};

/// The running proxy; with it go all connections through it.
pub struct Proxy {
    /// Where it listens, on loopback and without TLS.
    pub address: SocketAddr,
    controls: Arc<Controls>,
    kubeconfigs: TempDir,
    _work: JoinSet<()>,
}

/// What can be changed while it runs.
#[derive(Default)]
pub(crate) struct Controls {
    rules: Mutex<Rules>,
    counts: Mutex<BTreeMap<String, u64>>,
    switchboard: Switchboard,
}

impl Proxy {
    /// Starts it before the API server of a kubeconfig, in the runtime of the caller.
    pub async fn start(kubeconfig: &Path) -> Self {
        Self::start_at((Ipv4Addr::LOCALHOST, 0).into(), kubeconfig)
            .await
            .unwrap()
    }

    /// As [`Proxy::start`], at an address of one's own.
    ///
    /// # Errors
    ///
    /// Fails if the address is taken.
    pub async fn start_at(address: SocketAddr, kubeconfig: &Path) -> io::Result<Self> {
        let config = Kubeconfig::read_from(kubeconfig).map_err(io::Error::other)?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(config, &options).await;
        let upstream = Upstream::new(&config.map_err(io::Error::other)?)?;
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let controls = Arc::new(Controls::default());
        let mut work = JoinSet::new();
        work.spawn(connection::accept(
            listener,
            upstream,
            Arc::clone(&controls),
        ));
        Ok(Self {
            address,
            controls,
            kubeconfigs: TempDir::new()?,
            _work: work,
        })
    }

    /// Copies a kubeconfig, with this proxy as its server.
    pub fn kubeconfig(&self, original: &Path) -> PathBuf {
        let mut config = Kubeconfig::read_from(original).unwrap();
        for cluster in config
            .clusters
            .iter_mut()
            .flat_map(|named| &mut named.cluster)
        {
            cluster.server = Some(format!("http://{}", self.address));
            cluster.certificate_authority_data = None;
        }
        let path = self.kubeconfigs.path().join(original.file_name().unwrap());
        // Every JSON document is a YAML document.
        std::fs::write(&path, serde_json::to_vec(&config).unwrap()).unwrap();
        path
    }

    /// Replaces all rules; their counting starts at zero.
    pub fn set_rules(&self, rules: Vec<Rule>) {
        *lock(&self.controls.rules) = Rules::new(rules);
    }

    /// How many requests each of the current rules has spoiled.
    pub fn hits(&self) -> Vec<u64> {
        lock(&self.controls.rules).hits()
    }

    /// How many requests came, by verb and resource: `create pods`, `patch browsers/status`.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        lock(&self.controls.counts).clone()
    }

    /// Of one verb and resource.
    pub fn count(&self, request: &str) -> u64 {
        self.counts().get(request).copied().unwrap_or_default()
    }

    /// Lets the connections that there are stay open and carry nothing more; new ones work.
    pub fn silence(&self) {
        self.controls.switchboard.silence();
    }

    /// The same for all connections, those that are still to come too.
    pub fn silence_all(&self) {
        self.controls.switchboard.silence_all();
    }

    /// Lets all connections carry again, and what was held back first.
    pub fn resume(&self) {
        self.controls.switchboard.resume();
    }

    /// Closes the connections that there are.
    pub fn drop_connections(&self) {
        self.controls.switchboard.drop_connections();
    }
}

pub(crate) fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;

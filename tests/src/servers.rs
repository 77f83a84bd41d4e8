//! Two API servers of one cluster behind one address: one is up to date, the other's caches can be held back.

use std::path::{Path, PathBuf};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, Resource};
use podloom_control_plane::ControlPlane;
use tempfile::TempDir;

use crate::doubles::{BackendState, Balancer, Double};
use crate::faults::{Proxy, through};

/// A second API server, which reaches etcd through a proxy.
pub(crate) struct LateServer {
    lag: Double,
    url: String,
}

impl LateServer {
    pub(crate) fn start(plane: &ControlPlane) -> Self {
        let lag = Double::lag(plane.etcd());
        let url = plane.add_api_server(lag.address).unwrap();
        Self { lag, url }
    }
}

/// What an operator takes for one API server. At first it is the one that is up to date.
///
/// All tests share the late server, so no two tests hold back the same kind.
pub struct Servers<'c> {
    /// In front of the one that is up to date.
    pub fresh: Proxy,
    /// In front of the late one.
    pub late: Proxy,
    /// The kubeconfig of whoever uses them.
    pub kubeconfig: PathBuf,
    server: &'c LateServer,
    balancer: Balancer,
    _files: TempDir,
}

impl<'c> Servers<'c> {
    /// For the account of this kubeconfig.
    pub(crate) fn new(server: &'c LateServer, account: &Path) -> Self {
        let files = TempDir::new().unwrap();
        let write = |name: &str, config: &Kubeconfig| {
            let path = files.path().join(name);
            std::fs::write(&path, serde_json::to_vec(config).unwrap()).unwrap();
            path
        };
        let account = Kubeconfig::read_from(account).unwrap();
        let mut of_late = account.clone();
        for cluster in of_late.clusters.iter_mut().flat_map(|it| &mut it.cluster) {
            cluster.server = Some(server.url.clone());
        }
        let fresh = Proxy::start(&write("fresh", &account));
        let late = Proxy::start(&write("late", &of_late));
        let balancer = Double::balancer(&[fresh.address, late.address]);
        balancer.set(late.address, BackendState::Cut);
        Self {
            kubeconfig: write("both", &through(account, balancer.address())),
            fresh,
            late,
            server,
            balancer,
            _files: files,
        }
    }

    /// A client of the late server, with the account's rights.
    pub async fn late_client(&self) -> Client {
        client(&self.late.kubeconfig(&self.kubeconfig)).await
    }

    /// Cuts all connections, and lets new ones go to the late server only.
    pub fn use_late(&self) {
        self.turn(&self.late, &self.fresh);
    }

    /// Cuts all connections, and lets new ones go to the server that is up to date only.
    pub fn use_fresh(&self) {
        self.turn(&self.fresh, &self.late);
    }

    fn turn(&self, to: &Proxy, from: &Proxy) {
        self.balancer.set(to.address, BackendState::Serving);
        self.balancer.set(from.address, BackendState::Cut);
    }

    /// From now on the late server hears nothing of a kind.
    pub fn hold(&self, kind: &Held) {
        self.server.lag.steer("POST", "/hold", &kind.key);
    }

    /// Lets the late server catch up.
    pub fn release(&self, kind: &Held) {
        self.server.lag.steer("POST", "/release", &kind.key);
    }
}

/// A kind that can be held back.
pub struct Held {
    /// Its plural.
    pub plural: String,
    /// Its key in etcd.
    key: String,
}

impl Held {
    /// This kind.
    #[must_use]
    pub fn of<K: Resource<DynamicType = ()>>() -> Self {
        let (group, plural) = (K::group(&()), K::plural(&()).into_owned());
        // Kinds of Kubernetes' older groups are stored without their group.
        let key = match group.contains('.') {
            true => format!("/registry/{group}/{plural}/"),
            false => format!("/registry/{plural}/"),
        };
        Self { plural, key }
    }
}

/// A client with the rights of a kubeconfig. It works only in the runtime that created it.
pub async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options);
    Client::try_from(config.await.unwrap()).unwrap()
}

//! The environment of a soak run: a cluster, replicas of the operator, each behind a proxy of its own, and a BrowserConfig.

use std::sync::Arc;

use podloom_tests::{Cluster, MountedBundle, Scene};

use crate::ledger::{Findings, Ledger};
use crate::replica::Replica;
use crate::tenants;

const NAMESPACE: &str = "soak";
const REPLICAS: [&str; 3] = ["first", "second", "third"];

/// The environment of a soak run.
pub(crate) struct Stage {
    // First, so that they end before the cluster does.
    pub(crate) replicas: Vec<Arc<Replica>>,
    pub(crate) bundle: MountedBundle,
    pub(crate) scene: Scene,
    pub(crate) ledger: Ledger,
    pub(crate) findings: Findings,
}

impl Stage {
    /// Starts everything, and returns when all replicas are ready.
    pub(crate) async fn open(findings: Findings) -> Self {
        let cluster = Arc::new(Cluster::installed());
        let scene = Scene::new(cluster, NAMESPACE).await;
        scene.config("sessions", tenants::CONFIG).await;
        let bundle = MountedBundle::of(&tenants::good_chain("one"));
        let mut replicas = Vec::new();
        for name in REPLICAS {
            replicas.push(Arc::new(Replica::start(&scene, name, bundle.path()).await));
        }
        Self {
            replicas,
            bundle,
            scene,
            ledger: Ledger::default(),
            findings,
        }
    }
}

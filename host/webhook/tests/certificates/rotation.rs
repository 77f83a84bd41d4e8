//! Certificates that live for seconds, and a client that connects all the time.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use podloom_webhook::CertificateSlot;
use tokio::time::{Instant, sleep};

use crate::client::{authorities, connect};
use crate::scene::{HOSTS, Replica, Scene, certificates};

/// How far a client is behind. It is less than the time that replicas wait with these lifetimes.
const LAG: Duration = Duration::from_millis(250);

/// A client that trusts only what the configurations publish.
pub(crate) struct Visitor<'a> {
    scene: &'a Scene,
    slots: Vec<Arc<CertificateSlot>>,
    connections: usize,
    /// The certificates of servers, and those of authorities, that it saw.
    leaves: BTreeSet<Vec<u8>>,
    pub(crate) authorities: BTreeSet<Vec<u8>>,
}

impl<'a> Visitor<'a> {
    pub(crate) fn new(scene: &'a Scene, replicas: &[&Replica]) -> Self {
        let slots = replicas.iter().map(|replica| Arc::clone(&replica.slot));
        Self {
            scene,
            slots: slots.collect(),
            connections: 0,
            leaves: BTreeSet::new(),
            authorities: BTreeSet::new(),
        }
    }

    /// Connects to all replicas while something else is done. Fails at the first connection that fails.
    pub(crate) async fn during(&mut self, work: impl Future<Output = ()>) {
        tokio::select! {
            () = work => {}
            () = self.visit() => {}
        }
        assert!(self.connections > 20, "{} connections", self.connections);
    }

    /// Trusts what is published now, and what was published a moment ago: an API server learns of changes by a watch.
    async fn visit(&mut self) {
        let mut seen = VecDeque::new();
        loop {
            seen.push_back((Instant::now(), self.scene.bundles().await));
            seen.retain(|(at, _)| at.elapsed() <= LAG);
            let newest = seen.back().map(|(_, bundles)| bundles.clone());
            for bundle in newest.into_iter().flatten() {
                self.connect(&bundle).await;
            }
            // Connecting takes time, too.
            let oldest = seen.iter().find(|(at, _)| at.elapsed() <= LAG);
            for bundle in oldest
                .map(|(_, bundles)| bundles.clone())
                .into_iter()
                .flatten()
            {
                self.connect(&bundle).await;
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn connect(&mut self, bundle: &[u8]) {
        for slot in &self.slots {
            let host = HOSTS[self.connections % HOSTS.len()];
            let leaf = connect(slot, bundle, host).await.unwrap_or_else(|error| {
                panic!("connection {} failed: {error}; {slot:?}", self.connections)
            });
            self.connections += 1;
            self.leaves.insert(leaf.to_vec());
        }
        let found = authorities(bundle);
        self.authorities
            .extend(found.iter().map(|found| found.to_vec()));
    }
}

/// The certificates live for 12 seconds, their authorities for 48. The Secret is written some time before the configurations, and
/// leaders come and go: each is dropped wherever its work is.
#[test]
fn no_connection_fails_while_certificates_and_authorities_are_rotated() {
    const LIFETIME: Duration = Duration::from_secs(12);
    certificates("rotation", LIFETIME, async |scene: &Scene| {
        scene.configure();
        let leader = scene.slow_leader();
        let replicas = [scene.replica(), scene.replica()];
        let [one, two] = &replicas;
        scene.until_settled(&[one, two]).await;
        let mut visitor = Visitor::new(scene, &[one, two]);
        visitor
            .during(async {
                drop(leader);
                let end = Instant::now() + LIFETIME * 5;
                let mut milliseconds = 500;
                while Instant::now() < end {
                    let leader = scene.slow_leader();
                    sleep(Duration::from_millis(milliseconds)).await;
                    drop(leader);
                    milliseconds = 500 + (milliseconds * 7) % 2700;
                }
                let _leader = scene.slow_leader();
                scene.until_settled(&[one, two]).await;
            })
            .await;
        let (leaves, authorities) = (visitor.leaves.len(), visitor.authorities.len());
        assert!(leaves >= 5, "{leaves} certificates");
        assert!(authorities >= 2, "{authorities} authorities");
    });
}

//! Certificates that live for seconds, and a client that connects all the time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use podloom_webhook::CertificateSlot;
use tokio::time::{Instant, sleep};

use crate::client::{authorities, connect};
use crate::scene::{HOSTS, Replica, Scene, certificates};

/// A client that trusts only what the configurations publish when it connects.
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

    async fn visit(&mut self) {
        loop {
            // Each webhook has a caBundle of its own, and they change one after the other.
            for bundle in self.scene.bundles().await {
                for slot in &self.slots {
                    let connected = connect(slot, &bundle, HOSTS[self.connections % 3]).await;
                    let leaf = connected.unwrap_or_else(|error| {
                        panic!("connection {} failed: {error}; {slot:?}", self.connections)
                    });
                    self.connections += 1;
                    self.leaves.insert(leaf.to_vec());
                }
                let found = authorities(&bundle);
                self.authorities
                    .extend(found.iter().map(|found| found.to_vec()));
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The certificates live for 9 seconds, their authorities for 36.
#[test]
fn no_connection_fails_while_certificates_and_authorities_are_rotated() {
    const LIFETIME: Duration = Duration::from_secs(9);
    certificates("rotation", LIFETIME, async |scene: &Scene| {
        scene.configure();
        let leader = scene.leader();
        let replicas = [scene.replica(), scene.replica()];
        let [one, two] = &replicas;
        scene.until_settled(&[one, two]).await;
        let mut visitor = Visitor::new(scene, &[one, two]);
        visitor
            .during(async {
                drop(leader);
                // Leaders come and go: each is dropped wherever its work is.
                let end = Instant::now() + LIFETIME * 5;
                let mut milliseconds = 300;
                while Instant::now() < end {
                    let leader = scene.leader();
                    sleep(Duration::from_millis(milliseconds)).await;
                    drop(leader);
                    milliseconds = 300 + (milliseconds * 7) % 2700;
                }
                let _leader = scene.leader();
                scene.until_settled(&[one, two]).await;
            })
            .await;
        let (leaves, authorities) = (visitor.leaves.len(), visitor.authorities.len());
        assert!(leaves >= 5, "{leaves} certificates");
        assert!(authorities >= 2, "{authorities} authorities");
    });
}

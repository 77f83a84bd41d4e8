//! Reads the world around a Cluster, from caches alone. What they do not show, a plan asks the API server or IM for.

use std::sync::Arc;

use podloom_api::ClusterObject;

use super::kind::ClusterKind;
use super::wanted::Wanted;
use super::world::{Learned, SeenSecret, World};
use crate::resolve::{SecretKey, resolve};

impl ClusterKind {
    /// Reads the world.
    pub(super) fn look_around(&self, cluster: &ClusterObject) -> World {
        let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
        let mut known = self.memory.of(uid, cluster);
        let durable = known.recall(cluster);
        let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
        let bound = durable
            .running_on
            .as_ref()
            .or(durable.scheduled_to.as_ref());
        let backend = bound.map(|cloud| resolve(namespace, cloud, &self.caches));
        let allow = matches!(&backend, Some(Ok(backend)) if backend.im.allow_file_references);
        let wanted = cluster.spec.tosca.as_ref().map(|it| Wanted::of(it, allow));
        let mut world = World {
            cluster: Arc::new(cluster.clone()),
            durable,
            backend,
            wanted,
            known,
            secret: SeenSecret::Unseen,
            rival: None,
            learned: Learned::default(),
        };
        let inputs = world.inputs(self.versions(&world));
        world.known.refresh(&inputs);
        world.secret = self.seen_secret(&world);
        let claimed = world.durable.id.clone().or_else(|| world.to_adopt());
        world.rival = claimed.and_then(|id| self.claims.rival(&id, cluster));
        world
    }

    /// The versions of the Secrets that a request needs.
    fn versions(&self, world: &World) -> Vec<Option<String>> {
        let uses = world.resolved().map(|backend| backend.secrets.as_slice());
        let uses = uses.unwrap_or_default().iter();
        uses.map(|it| self.metas.version(&it.secret())).collect()
    }

    fn seen_secret(&self, world: &World) -> SeenSecret {
        let key = SecretKey {
            namespace: world.namespace().to_owned(),
            name: world.secret_name(),
        };
        match self.metas.get(&key) {
            Some(found) => SeenSecret::of(&found.metadata, world.uid()),
            // A cache may lag, and without the right to watch Secrets there is none.
            None => SeenSecret::Unseen,
        }
    }
}

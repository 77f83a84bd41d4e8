//! Reads the world around a PortalExpose, from caches alone. What they do not show, a plan asks the API server for.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use kube::Resource;
use kube::runtime::reflector::ObjectRef;
use podloom_api::{PortalExposeObject, RelayState};

use super::authority::Authority;
use super::check::check;
use super::deployment::ready;
use super::identity::is_ours;
use super::kind::ExposeKind;
use super::naming;
use super::relays::{Lease, Link, UserId};
use super::world::{Learned, SeenDeployment, SeenIdentity, World};

impl ExposeKind {
    /// Reads the world.
    pub(super) fn look_around(&self, expose: &PortalExposeObject) -> World {
        let memory = &self.tunnels.memory;
        let uid = expose.metadata.uid.as_deref().unwrap_or_default();
        let namespace = expose.metadata.namespace.as_deref().unwrap_or_default();
        let service = ObjectRef::new(&expose.spec.app.service.name).within(namespace);
        let about = self.caches.namespaces.meta(namespace);
        let about = about.as_ref().map(|about| about.meta());
        let mut world = World {
            expose: Arc::new(expose.clone()),
            classes: self.caches.classes.state(),
            service: self.caches.services.get(&service),
            conflict: self.tunnels.rivals.conflict(expose),
            identity: self.seen_identity(expose),
            deployment: self.seen_deployment(expose),
            links: Vec::new(),
            chain: self.tunnels.mutator.chain(),
            namespace_version: about.and_then(|about| about.resource_version.clone()),
            namespace_ends: about.is_some_and(|about| about.deletion_timestamp.is_some()),
            refused: memory.refusal(uid),
            queued: memory.waits(uid),
            rolls_since: None,
            next_repair: memory.next_repair(uid),
            written: memory.applied(uid),
            learned: Learned::default(),
        };
        if let SeenDeployment::Found(found) = &world.deployment {
            world.rolls_since = memory.rolls_since(uid, found);
        }
        match world.is_deleted() {
            true => self.tunnels.relays.forget(&user(expose)),
            false => self.look_at_relays(&mut world),
        }
        world
    }

    /// Says which relays matter, and reads what is known of them.
    pub(super) fn look_at_relays(&self, world: &mut World) {
        let expose = Arc::clone(&world.expose);
        let app = &expose.spec.app.name;
        let user = user(&expose);
        let targets = check(&expose.spec).unwrap_or_default();
        let relays = &self.tunnels.relays;
        // As long as nobody knows whether there are pods, nothing is different. If there never was a Deployment, there are none.
        if world.deployment != SeenDeployment::Unseen || world.applied().is_none() {
            let has_ready_pod = world.own_deployment().is_some_and(|found| ready(found) > 0);
            let leases = targets.iter().map(|target| Lease {
                authority: target.authority.clone(),
                hostname: target.authority.hostname(app),
                has_ready_pod,
                last_known: last_known(&expose, &target.authority),
            });
            relays.set(&user, leases.collect());
            self.forget_if_gone(&expose);
        }
        let links = targets.iter().map(|target| {
            let hostname = target.authority.hostname(app);
            relays.link(&user, &target.authority, &hostname)
        });
        world.links = links.collect();
    }

    /// Forgets a PortalExpose that has no tunnel any more.
    pub(super) fn forget(&self, world: &World) {
        self.tunnels.relays.forget(&user(&world.expose));
        self.tunnels.memory.forget(world.uid().unwrap_or_default());
    }

    /// Forgets what a pass noted about a PortalExpose that was deleted meanwhile.
    ///
    /// Whoever notices a deletion removes the object from the cache first, and then what is noted about it (`wiring/exposes.rs`). What is
    /// noted after that, nobody else removes.
    pub(super) fn forget_if_gone(&self, expose: &PortalExposeObject) {
        let resource = Arc::clone(&self.resources.expose);
        let user = user(expose);
        let reference = ObjectRef::new_with(&user.name, resource).within(&user.namespace);
        let cached = self.caches.exposes.get(&reference);
        if cached.is_none() {
            self.tunnels.relays.forget(&user);
        }
        let uid = expose.metadata.uid.as_deref();
        // A new one of the same name has its own memory.
        if cached.is_none_or(|cached| cached.meta().uid.as_deref() != uid) {
            self.tunnels.memory.forget(uid.unwrap_or_default());
        }
    }

    fn seen_identity(&self, expose: &PortalExposeObject) -> SeenIdentity {
        let metadata = &expose.metadata;
        let name = metadata.name.as_deref().unwrap_or_default();
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let secret = ObjectRef::new(&naming::secret_name(name)).within(namespace);
        let cached = self
            .caches
            .secrets
            .known()
            .and_then(|secrets| secrets.get(&secret));
        let Some(cached) = cached else {
            return SeenIdentity::Unseen;
        };
        let uid = metadata.uid.as_deref().unwrap_or_default();
        let cached = Arc::new(cached.metadata.clone());
        let identity = self.tunnels.memory.identity(uid, cached);
        match is_ours(&identity.metadata, name) {
            true => SeenIdentity::Ours(identity),
            false => SeenIdentity::NotOurs,
        }
    }

    fn seen_deployment(&self, expose: &PortalExposeObject) -> SeenDeployment {
        let metadata = &expose.metadata;
        let name = naming::deployment_name(metadata.name.as_deref().unwrap_or_default());
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let deployment = ObjectRef::<Deployment>::new(&name).within(namespace);
        let uid = metadata.uid.as_deref().unwrap_or_default();
        match self.caches.deployments.get(&deployment) {
            Some(cached) => {
                let newest = self.tunnels.memory.newest(uid, cached);
                SeenDeployment::Found(newest)
            }
            None => SeenDeployment::Unseen,
        }
    }
}

pub(super) fn user(expose: &PortalExposeObject) -> UserId {
    UserId {
        namespace: expose.metadata.namespace.clone().unwrap_or_default(),
        name: expose.metadata.name.clone().unwrap_or_default(),
    }
}

/// What the status says of a relay: of the same public URL, since a relay's name says nothing.
fn last_known(expose: &PortalExposeObject, authority: &Authority) -> Option<Link> {
    let url = authority.public_url(&expose.spec.app.name);
    let relays = expose.status.as_ref()?.relay.as_ref()?.connected.as_ref()?;
    let is_it = |relay: &&RelayState| relay.public_url.as_deref() == Some(&url);
    let relay = relays.iter().find(is_it)?;
    let connected_at = relay.connected_at.as_ref().map(|time| time.0);
    let last_error = relay.last_error.clone();
    Some(Link::stored(relay.status, connected_at, last_error))
}

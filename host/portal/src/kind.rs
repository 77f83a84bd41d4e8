//! The kind PortalExpose: what the engine needs to run its controller.

#[cfg(test)]
pub(super) mod tests;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Secret, Service};
use kube::Resource;
use kube::core::{ApiResource, ObjectMeta, PartialObjectMeta};
use podloom_api::names::portal;
use podloom_api::{AppliedTunnel, PortalExposeObject, RelayState, TunnelClassObject};
use podloom_engine::backoff::Waits;
use podloom_engine::cache::Cache;
use podloom_engine::error::Error;
use podloom_engine::events::Notice;
use podloom_engine::kind::{Context, Done, Kind, Remains, Source, Traits};
use podloom_engine::namespaces::Namespaces;
use podloom_engine::plan::Plan;
use podloom_engine::read::edition;
use podloom_engine::readable::Readable;
use podloom_mutation::PodMutator;

use super::check::{Authority, check};
use super::deployment::ready;
use super::identity::is_ours;
use super::memory::Memory;
use super::metrics::CONTROLLER;
use super::naming;
use super::plan::plan;
use super::relays::{Lease, Link, Relays, UserId};
use super::rivals::Rivals;
use super::rolls::Rolls;
use super::world::{
    Action, ActionOutcome, Apply, Learned, SeenDeployment, SeenIdentity, Settings, Why, World,
};

/// A Secret in a cache, without its values.
pub(super) type SecretMeta = PartialObjectMeta<Secret>;

/// What the controller of PortalExposes needs besides the [`Context`].
pub(super) struct ExposeKind {
    pub(super) resources: Resources,
    pub(super) caches: Caches,
    pub(super) tunnels: Tunnels,
    pub(super) settings: Settings,
}

/// What is written.
pub(super) struct Resources {
    pub(super) expose: Arc<ApiResource>,
    pub(super) deployment: ApiResource,
    pub(super) secret: ApiResource,
}

/// What is known of the cluster. Cheap to clone.
#[derive(Clone)]
pub(super) struct Caches {
    pub(super) exposes: Cache<Readable<PortalExposeObject>>,
    pub(super) classes: Cache<Readable<TunnelClassObject>>,
    pub(super) services: Cache<Service>,
    pub(super) deployments: Cache<Deployment>,
    pub(super) secrets: Cache<SecretMeta>,
    pub(super) namespaces: Namespaces,
}

/// What the controllers in all scopes share.
#[derive(Clone)]
pub(super) struct Tunnels {
    pub(super) mutator: Arc<dyn PodMutator>,
    pub(super) relays: Relays,
    pub(super) rolls: Rolls,
    pub(super) memory: Memory,
    pub(super) rivals: Rivals,
}

impl Kind for ExposeKind {
    type Object = PortalExposeObject;
    type World = World;
    type Action = Action;
    type Outcome = ActionOutcome;

    const TRAITS: Traits = Traits {
        finalizer: Some(portal::FINALIZER),
        // Two of them may be statuses: Failed is left for Pending first.
        steps: 20,
        backoff: Waits {
            first: Duration::from_millis(5),
            longest: Duration::from_mins(5),
        },
        ..Traits::of("PortalExpose", CONTROLLER, portal::FIELD_MANAGER)
    };

    async fn observe(
        &self,
        _: &Context,
        expose: &PortalExposeObject,
        _: Source,
    ) -> Result<World, Error> {
        Ok(self.look_around(expose))
    }

    fn plan(&self, world: &World, now: Timestamp) -> Plan<Action> {
        plan(world, &self.settings, now)
    }

    async fn act(
        &self,
        ctx: &Context,
        world: &World,
        action: &Action,
    ) -> Result<ActionOutcome, Error> {
        self.carry_out(ctx, world, action).await
    }

    fn report(&self, done: &Done<'_, Self>, notices: Vec<Notice>) -> Vec<Notice> {
        log(done);
        match (done.action, done.outcome) {
            (Action::Apply(apply), ActionOutcome::Applied(answered))
                if changes(apply, done.world, answered) =>
            {
                notices
            }
            // Nothing was written.
            (Action::Apply(_), _)
            | (
                _,
                ActionOutcome::Gone
                | ActionOutcome::Refused(_)
                | ActionOutcome::MetadataRejected(_),
            ) => Vec::new(),
            _ => notices,
        }
    }

    fn learn(&self, world: &mut World, outcome: ActionOutcome) -> Remains {
        let remains = self.learn_outcome(world, outcome);
        self.forget_if_gone(&world.expose);
        remains
    }

    fn metadata(world: &World) -> &ObjectMeta {
        &world.expose.metadata
    }
}

impl ExposeKind {
    /// Takes over the Deployment that was applied.
    fn learn_applied(&self, world: &mut World, deployment: Arc<Deployment>) {
        let rendered = world.learned.rendered.as_ref();
        world.learned.applied = rendered.map(|rendered| AppliedTunnel {
            generation: deployment.metadata.generation,
            template_hash: Some(rendered.template_hash.clone()),
            chain_digest: rendered.chain.clone(),
        });
        if let (Some(uid), Some(applied)) = (world.uid(), &world.learned.applied) {
            self.tunnels.memory.has_applied(uid, applied.clone());
        }
        world.deployment = SeenDeployment::Found(deployment);
        self.look_at_relays(world);
    }

    fn learn_outcome(&self, world: &mut World, outcome: ActionOutcome) -> Remains {
        match outcome {
            ActionOutcome::Written(expose) => {
                let remains = Remains::of(&expose.metadata);
                world.expose = Arc::from(expose);
                world.learned.is_confirmed = true;
                if world.is_deleted() && !world.has_finalizer() {
                    self.forget(world);
                }
                return remains;
            }
            ActionOutcome::Read(expose) => {
                // Of one that was edited, other things matter than those that were looked at.
                if edition(&expose.metadata) != edition(&world.expose.metadata) {
                    *world = self.look_around(&expose);
                }
                world.learned.is_confirmed = true;
            }
            ActionOutcome::Gone => {
                self.forget(world);
                return Remains::Unknown;
            }
            ActionOutcome::MetadataRejected(sentence) => {
                world.learned.metadata_rejected = Some(sentence);
            }
            ActionOutcome::Identity {
                identity,
                is_written,
            } => {
                world.identity = identity;
                world.learned.is_identity_written |= is_written;
            }
            ActionOutcome::Deployment(found) => {
                world.deployment = found.map_or(SeenDeployment::Absent, SeenDeployment::Found);
                self.look_at_relays(world);
            }
            ActionOutcome::Adopted => world.learned.is_adopted = true,
            ActionOutcome::Rendered(rendered) => {
                // It went through the newest chain, which may have come since the pass began.
                if rendered.chain.is_some() {
                    world.chain.clone_from(&rendered.chain);
                }
                world.learned.rendered = Some(*rendered);
                self.give_needless_turn_back(world);
            }
            ActionOutcome::Turn(turn) => world.learned.turn = Some(turn),
            ActionOutcome::Applied(deployment) => self.learn_applied(world, deployment),
            ActionOutcome::Refused(refusal) => world.learned.refused = Some(refusal),
            ActionOutcome::DeploymentDeleted => {
                world.learned.is_deployment_deleted = true;
                // Perhaps it is gone already.
                world.deployment = SeenDeployment::Unseen;
            }
        }
        Remains::Object
    }
}

/// Whether a Deployment was created, or its generation is another than before.
fn changes(apply: &Apply, world: &World, answered: &Deployment) -> bool {
    let before = world.own_deployment();
    let before = before.and_then(|before| before.metadata.generation);
    apply.why == Why::Missing || before != answered.metadata.generation
}

/// Logs what changed.
fn log(done: &Done<'_, ExposeKind>) {
    let ObjectMeta {
        namespace, name, ..
    } = &done.world.expose.metadata;
    match (done.action, done.outcome) {
        (Action::Apply(apply), ActionOutcome::Applied(answered))
            if changes(apply, done.world, answered) =>
        {
            tracing::info!(namespace, name, why = ?apply.why, "tunnel applied");
        }
        (Action::CreateIdentity, ActionOutcome::Identity { is_written, .. }) if *is_written => {
            tracing::info!(namespace, name, "identity created");
        }
        (Action::WriteStatus(wanted), ActionOutcome::Written(_)) => {
            let phase = |phase: Option<podloom_api::PortalPhase>| phase.map(|it| it.as_str());
            let before = phase(done.world.status().and_then(|status| status.phase));
            let now = phase(wanted.phase);
            if before != now {
                tracing::info!(namespace, name, phase = now, "tunnel changes its phase");
            }
        }
        (Action::SetMetadata(_), ActionOutcome::Written(_)) if done.world.is_deleted() => {
            tracing::info!(namespace, name, "tunnel deleted");
        }
        _ => {}
    }
}

// Reads the world around a PortalExpose, from caches alone. What they do not show, a plan asks the API server for.

impl ExposeKind {
    /// Reads the world.
    pub(super) fn look_around(&self, expose: &PortalExposeObject) -> World {
        let memory = &self.tunnels.memory;
        let uid = expose.metadata.uid.as_deref().unwrap_or_default();
        let namespace = expose.metadata.namespace.as_deref().unwrap_or_default();
        let service = &expose.spec.app.service.name;
        let about = self.caches.namespaces.meta(namespace);
        let about = about.as_ref().map(|about| about.meta());
        let mut world = World {
            expose: Arc::new(expose.clone()),
            classes: self.caches.classes.all(),
            service: self.caches.services.get(Some(namespace), service),
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
        self.look_at_relays(&mut world);
        world
    }

    /// Says which relays matter, and reads what is known of them. To what is being deleted, none do.
    pub(super) fn look_at_relays(&self, world: &mut World) {
        let expose = Arc::clone(&world.expose);
        let app = &expose.spec.app.name;
        let user = user(&expose);
        let relays = &self.tunnels.relays;
        if world.is_deleted() {
            return relays.forget(&user);
        }
        let targets = check(&expose.spec).unwrap_or_default();
        // As long as nobody knows whether there are pods, nothing is different. If there never was a Deployment, there are none.
        if world.deployment != SeenDeployment::Unseen || world.applied().is_none() {
            let has_ready_pod = world.own_deployment().is_some_and(|found| ready(found) > 0);
            let leases = targets.iter().map(|authority| Lease {
                authority: authority.clone(),
                hostname: authority.hostname(app),
                has_ready_pod,
                last_known: last_known(&expose, authority),
            });
            relays.set(&user, leases.collect());
            self.forget_if_gone(&expose);
        }
        let links = targets
            .iter()
            .map(|authority| relays.link(&user, authority, &authority.hostname(app)));
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
        let user = user(expose);
        let cached = self.caches.exposes.get(Some(&user.namespace), &user.name);
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
        let secret = naming::secret_name(name);
        let Some(cached) = self.caches.secrets.get(Some(namespace), &secret) else {
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
        let uid = metadata.uid.as_deref().unwrap_or_default();
        match self.caches.deployments.get(Some(namespace), &name) {
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

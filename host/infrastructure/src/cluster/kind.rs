//! The kind Cluster: what the engine needs to run its controller.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::core::{ApiResource, ObjectMeta};
use podloom_api::ClusterObject;
use podloom_api::names::infrastructure::{FIELD_MANAGER, FINALIZER};
use podloom_engine::error::Error;
use podloom_engine::events::Notice;
use podloom_engine::kind::{Context, Done, Kind, Remains, Source, Traits, Unreadable};
use podloom_engine::plan::Plan;

use super::absorb::learn;
use super::action::{Action, Outcome};
use super::claims::Claims;
use super::memory::Memory;
use super::plan;
use super::silent::Silent;
use super::world::{Learned, SeenSecret, Settings, Wanted, World};
use crate::InfrastructureMetrics;
use crate::im::InfrastructureManager;
use crate::in_use::Resources;
use crate::kubeconfig::Prober;
use crate::resolve::{Caches, SecretKey, resolve};
use crate::secrets::{SecretMetas, Secrets};

/// The name of the controller in logs and metrics.
pub(crate) const CONTROLLER: &str = "cluster";

/// What the controller of Clusters needs besides the [`Context`].
pub(crate) struct ClusterKind {
    pub(crate) resources: Resources,
    /// The resource of Secrets.
    pub(crate) secret: ApiResource,
    pub(crate) caches: Caches,
    pub(crate) metas: SecretMetas,
    pub(crate) claims: Claims,
    pub(crate) im: Arc<dyn InfrastructureManager>,
    pub(crate) secrets: Secrets,
    pub(crate) prober: Prober,
    pub(crate) memory: Memory,
    pub(crate) silent: Silent,
    pub(crate) metrics: InfrastructureMetrics,
    pub(crate) settings: Settings,
}

impl Kind for ClusterKind {
    type Object = ClusterObject;
    type World = World;
    type Action = Action;
    type Outcome = Outcome;

    const TRAITS: Traits = Traits {
        finalizer: Some(FINALIZER),
        steps: 20,
        // A search for an infrastructure reads fifty templates, eight at a time.
        pass_timeout: Duration::from_mins(5),
        unreadable: Unreadable::Keep,
        ..Traits::of("Cluster", CONTROLLER, FIELD_MANAGER)
    };

    async fn observe(
        &self,
        _: &Context,
        cluster: &ClusterObject,
        _: Source,
    ) -> Result<World, Error> {
        let world = self.look_around(cluster);
        self.memory.begin(world.uid(), world.known.clone());
        Ok(world)
    }

    fn plan(&self, world: &World, now: Timestamp) -> Plan<Action> {
        plan::plan(world, &self.settings, now)
    }

    async fn act(&self, ctx: &Context, world: &World, action: &Action) -> Result<Outcome, Error> {
        self.carry_out(ctx, world, action).await
    }

    fn report(&self, done: &Done<'_, Self>, notices: Vec<Notice>) -> Vec<Notice> {
        log(done);
        self.measure(done);
        plan::of_outcome(done.world, done.action, done.outcome, notices)
    }

    fn learn(&self, world: &mut World, outcome: Outcome) -> Remains {
        let remains = learn(world, outcome);
        let is_released = world.is_deleted() && !world.has_finalizer();
        match remains != Remains::Object || is_released {
            true => self.memory.forget(world.uid()),
            false => self.memory.keep(world.uid(), world.known.clone()),
        }
        remains
    }

    fn metadata(world: &World) -> &ObjectMeta {
        &world.cluster.metadata
    }
}

impl ClusterKind {
    /// Measures an operation that has ended.
    fn measure(&self, done: &Done<'_, Self>) {
        let (Action::WriteStatus(wanted), Outcome::StatusWritten(_)) = (done.action, done.outcome)
        else {
            return;
        };
        let Some(operation) = &wanted.operation else {
            return;
        };
        let before = done.world.status().and_then(|it| it.operation.as_ref());
        let was_over = before.is_some_and(|before| {
            before.finished_at.is_some() && before.started_at == operation.started_at
        });
        let Some(finished) = operation.finished_at.as_ref().filter(|_| !was_over) else {
            return;
        };
        let took = finished.0.duration_since(operation.started_at.0);
        let took = Duration::try_from(took).unwrap_or_default();
        self.metrics.operated(operation.kind, took);
    }
}

/// Logs what changed.
fn log(done: &Done<'_, ClusterKind>) {
    let ObjectMeta {
        namespace, name, ..
    } = &done.world.cluster.metadata;
    match (done.action, done.outcome) {
        (Action::Ask(ask), Outcome::Asked(asked)) => {
            tracing::debug!(namespace, name, ?ask, reply = ?asked.reply, "infrastructure manager asked");
        }
        (Action::WriteStatus(wanted), Outcome::StatusWritten(_)) => {
            let before = done.world.status().and_then(|status| status.state);
            if before != wanted.state {
                let state = wanted.state.map(podloom_api::ClusterState::as_str);
                tracing::info!(namespace, name, state, "cluster changes its state");
            }
        }
        (Action::SetMetadata(_), Outcome::Marked(_)) if done.world.is_deleted() => {
            tracing::info!(namespace, name, "cluster deleted");
        }
        _ => {}
    }
}

// Reads the world around a Cluster, from caches alone. What they do not show, a plan asks the API server or IM for.

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
        uses.map(|it| self.metas.version(&it.secret)).collect()
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

#[cfg(test)]
mod tests;

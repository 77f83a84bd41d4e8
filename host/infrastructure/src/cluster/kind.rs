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

use super::action::{Action, Outcome};
use super::claims::Claims;
use super::learn::learn;
use super::memory::Memory;
use super::notices;
use super::plan::plan;
use super::silent::Silent;
use super::world::{Settings, World};
use crate::InfrastructureMetrics;
use crate::im::InfrastructureManager;
use crate::in_use::Resources;
use crate::kubeconfig::Prober;
use crate::resolve::Caches;
use crate::secret_metas::SecretMetas;
use crate::secrets::Secrets;

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
        plan(world, &self.settings, now)
    }

    async fn act(&self, ctx: &Context, world: &World, action: &Action) -> Result<Outcome, Error> {
        self.carry_out(ctx, world, action).await
    }

    fn report(&self, done: &Done<'_, Self>, notices: Vec<Notice>) -> Vec<Notice> {
        log(done);
        self.measure(done);
        notices::of_outcome(done.world, done.action, done.outcome, notices)
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

#[cfg(test)]
mod tests;

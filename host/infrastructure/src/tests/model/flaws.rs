//! The operator with a fault that somebody might make, to see that the search finds it.

use std::time::Duration;

use jiff::Timestamp;
use kube::core::ObjectMeta;
use podloom_api::ClusterObject;
use podloom_engine::error::Error;
use podloom_engine::kind::{Context, Kind, Remains, Source, Traits};
use podloom_engine::plan::Plan;

use super::SETTLE;
use crate::cluster::ClusterKind;
use crate::cluster::fixtures::{Action, Outcome, World};

/// A fault of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// It sends a change without writing it into the status first.
    RecordSkipped,
    /// It removes its finalizer before the infrastructure is gone.
    FinalizerFirst,
    /// It believes IM at once that the infrastructure is gone.
    GoneBelieved,
    /// It takes the id in the status for that of the Cluster's infrastructure.
    IdTrusted,
    /// It repeats a create request at once if there is no infrastructure yet.
    NotSettled,
    /// It writes without the resourceVersion that it has read.
    VersionIgnored,
}

/// The kind Cluster, with a fault or without.
pub(super) struct Flawed {
    pub(super) kind: ClusterKind,
    pub(super) flaw: Option<Flaw>,
}

impl Kind for Flawed {
    type Object = ClusterObject;
    type World = World;
    type Action = Action;
    type Outcome = Outcome;

    const TRAITS: Traits = ClusterKind::TRAITS;

    async fn observe(
        &self,
        ctx: &Context,
        cluster: &ClusterObject,
        source: Source,
    ) -> Result<World, Error> {
        let mut world = self.kind.observe(ctx, cluster, source).await?;
        if self.flaw == Some(Flaw::IdTrusted) {
            world.known.named.clone_from(&world.durable.id);
        }
        Ok(world)
    }

    fn plan(&self, world: &World, now: Timestamp) -> Plan<Action> {
        match self.flaw {
            Some(Flaw::FinalizerFirst) if world.is_deleted() && world.has_finalizer() => {
                let patch = world.without_finalizer().unwrap_or_default();
                Plan::act(Action::SetMetadata(patch))
            }
            Some(Flaw::GoneBelieved) if world.known.gone_since.is_some() => {
                let mut trusting = world.clone();
                trusting.learned.is_gone = true;
                self.kind.plan(&trusting, now)
            }
            _ => self.kind.plan(world, now),
        }
    }

    async fn act(&self, ctx: &Context, world: &World, action: &Action) -> Result<Outcome, Error> {
        match action {
            Action::Record { change, status } if self.flaw == Some(Flaw::RecordSkipped) => {
                let mut cluster = (*world.cluster).clone();
                cluster.status = Some((**status).clone());
                Ok(Outcome::Recorded(*change, Box::new(cluster)))
            }
            _ => self.kind.act(ctx, world, action).await,
        }
    }

    fn learn(&self, world: &mut World, outcome: Outcome) -> Remains {
        self.kind.learn(world, outcome)
    }

    fn metadata(world: &World) -> &ObjectMeta {
        ClusterKind::metadata(world)
    }
}

impl Flaw {
    /// The precondition that the API server does not get to see.
    pub(super) fn ignored(self) -> Option<&'static str> {
        (self == Self::VersionIgnored).then_some("resourceVersion")
    }

    /// How long a request may be on its way.
    pub(super) fn settle(self) -> Duration {
        match self {
            Self::NotSettled => Duration::ZERO,
            _ => SETTLE,
        }
    }
}

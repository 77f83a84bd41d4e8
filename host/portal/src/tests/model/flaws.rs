//! The operator with a fault that somebody might make, to see that the search finds it.

use jiff::Timestamp;
use kube::core::ObjectMeta;
use podloom_api::PortalExposeObject;
use podloom_api::names::portal;
use podloom_engine::error::Error;
use podloom_engine::events::Notice;
use podloom_engine::kind::{Context, Done, Kind, Remains, Source, Traits};
use podloom_engine::plan::Plan;
use podloom_engine::write::MetadataPatch;

use crate::kind::ExposeKind;
use crate::world::{Action, ActionOutcome, World};

/// A fault of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// It trusts its cache: the PortalExpose is not read before a child is created.
    ConfirmSkipped,
    /// It removes its finalizer before the Deployment is gone.
    FinalizerFirst,
    /// It writes without the resourceVersion that it has read.
    VersionIgnored,
    /// It writes and deletes whatever has the name.
    UidIgnored,
}

/// The kind PortalExpose, with a fault or without.
pub(super) struct Flawed {
    pub(super) kind: ExposeKind,
    pub(super) flaw: Option<Flaw>,
}

impl Kind for Flawed {
    type Object = PortalExposeObject;
    type World = World;
    type Action = Action;
    type Outcome = ActionOutcome;

    const TRAITS: Traits = ExposeKind::TRAITS;

    async fn observe(
        &self,
        ctx: &Context,
        expose: &PortalExposeObject,
        source: Source,
    ) -> Result<World, Error> {
        self.kind.observe(ctx, expose, source).await
    }

    fn plan(&self, world: &World, now: Timestamp) -> Plan<Action> {
        match self.flaw {
            Some(Flaw::ConfirmSkipped) => {
                let mut trusting = world.clone();
                trusting.learned.is_confirmed = true;
                self.kind.plan(&trusting, now)
            }
            Some(Flaw::FinalizerFirst) if world.is_deleted() && world.has_finalizer() => {
                let patch = MetadataPatch::without(&world.expose.metadata, portal::FINALIZER);
                Plan::act(Action::SetMetadata(patch.unwrap_or_default()))
            }
            _ => self.kind.plan(world, now),
        }
    }

    async fn act(
        &self,
        ctx: &Context,
        world: &World,
        action: &Action,
    ) -> Result<ActionOutcome, Error> {
        self.kind.act(ctx, world, action).await
    }

    fn report(&self, done: &Done<'_, Self>, notices: Vec<Notice>) -> Vec<Notice> {
        let done = Done {
            world: done.world,
            action: done.action,
            outcome: done.outcome,
            now: done.now,
        };
        self.kind.report(&done, notices)
    }

    fn learn(&self, world: &mut World, outcome: ActionOutcome) -> Remains {
        self.kind.learn(world, outcome)
    }

    fn metadata(world: &World) -> &ObjectMeta {
        ExposeKind::metadata(world)
    }
}

impl Flaw {
    /// The precondition that the API server does not get to see.
    pub(super) fn ignored(self) -> Option<&'static str> {
        match self {
            Self::VersionIgnored => Some("resourceVersion"),
            Self::UidIgnored => Some("uid"),
            _ => None,
        }
    }
}

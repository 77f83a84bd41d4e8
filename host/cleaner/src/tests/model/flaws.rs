//! The operator with a fault that somebody might make, to see that the search finds it.

use jiff::Timestamp;
use kube::core::ObjectMeta;
use podloom_api::names::cleaner::FINALIZER;
use podloom_engine::error::Error;
use podloom_engine::events::Notice;
use podloom_engine::kind::{Context, Done, Kind, Remains, Source, Traits};
use podloom_engine::plan::Plan;
use podloom_engine::write::MetadataPatch;

use crate::kind::CleanerKind;
use crate::world::{Action, ActionOutcome, Fate, StoredCleaner, World};

/// A fault of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// It deletes the targets before the Cleaner.
    TargetsFirst,
    /// It removes its finalizer before anything is deleted.
    FinalizerFirst,
    /// A deletion that fails counts as done.
    FailureForgotten,
    /// It writes without the resourceVersion that it has read.
    VersionIgnored,
    /// It writes and deletes whatever has the name.
    UidIgnored,
}

/// The kind Cleaner, with a fault or without. No look is late by chance.
pub(super) struct Flawed {
    pub(super) kind: CleanerKind,
    pub(super) flaw: Option<Flaw>,
}

impl Kind for Flawed {
    type Object = StoredCleaner;
    type World = World;
    type Action = Action;
    type Outcome = ActionOutcome;

    const TRAITS: Traits = CleanerKind::TRAITS;

    async fn observe(
        &self,
        ctx: &Context,
        cleaner: &StoredCleaner,
        source: Source,
    ) -> Result<World, Error> {
        let mut world = self.kind.observe(ctx, cleaner, source).await?;
        world.jitter = 0.0;
        Ok(world)
    }

    fn plan(&self, world: &World, now: Timestamp) -> Plan<Action> {
        let plan = self.kind.plan(world, now);
        let is_planned = world.has_finalizer() && world.deletion().is_some();
        match self.flaw {
            Some(Flaw::TargetsFirst) if is_planned && !world.learned.has_deleted => {
                Plan::act(Action::DeleteTargets(vec![0]))
            }
            Some(Flaw::FinalizerFirst) if is_planned && world.is_deleted() => {
                let patch = MetadataPatch::without(&world.cleaner.metadata, FINALIZER);
                Plan::act(Action::SetMetadata(patch.unwrap_or_default()))
            }
            _ => plan,
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
        let outcome = match outcome {
            ActionOutcome::Deleted(mut fates) if self.flaw == Some(Flaw::FailureForgotten) => {
                for (_, fate) in &mut fates {
                    if let Fate::Failed(_) = fate {
                        *fate = Fate::Gone;
                    }
                }
                ActionOutcome::Deleted(fates)
            }
            outcome => outcome,
        };
        self.kind.learn(world, outcome)
    }

    fn metadata(world: &World) -> &ObjectMeta {
        CleanerKind::metadata(world)
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

//! The faults that somebody might make in the operator, to see that the search finds them.

use jiff::Timestamp;
use podloom_api::names::cleaner::FINALIZER;
use podloom_engine::kind::Kind;
use podloom_engine::plan::Plan;
use podloom_engine::write::MetadataPatch;
use podloom_model::flaws;

use crate::kind::CleanerKind;
use crate::world::{Action, ActionOutcome, Fate, World};

/// A fault of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// There is none.
    None,
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

impl flaws::Flaw<CleanerKind> for Flaw {
    fn ignored(self) -> Option<&'static str> {
        match self {
            Self::VersionIgnored => Some("resourceVersion"),
            Self::UidIgnored => Some("uid"),
            _ => None,
        }
    }

    /// No look is late by chance.
    fn observed(self, world: &mut World) {
        world.jitter = 0.0;
    }

    fn plan(self, kind: &CleanerKind, world: &World, now: Timestamp) -> Plan<Action> {
        let is_planned = world.has_finalizer() && world.deletion().is_some();
        match self {
            Self::TargetsFirst if is_planned && !world.learned.has_deleted => {
                Plan::act(Action::DeleteTargets(vec![0]))
            }
            Self::FinalizerFirst if is_planned && world.is_deleted() => {
                let patch = MetadataPatch::without(&world.cleaner.metadata, FINALIZER);
                Plan::act(Action::SetMetadata(patch.unwrap_or_default()))
            }
            _ => kind.plan(world, now),
        }
    }

    fn taken_for(self, mut outcome: ActionOutcome) -> ActionOutcome {
        if let (Self::FailureForgotten, ActionOutcome::Deleted(fates)) = (self, &mut outcome) {
            for (_, fate) in fates {
                if let Fate::Failed(_) = fate {
                    *fate = Fate::Gone;
                }
            }
        }
        outcome
    }
}

//! The faults that somebody might make in the operator, to see that the search finds them.

use jiff::Timestamp;
use podloom_api::names::portal;
use podloom_engine::kind::Kind;
use podloom_engine::plan::Plan;
use podloom_engine::write::MetadataPatch;
use podloom_model::flaws;

use crate::kind::ExposeKind;
use crate::world::{Action, World};

/// A fault of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// There is none.
    None,
    /// It trusts its cache: the PortalExpose is not read before a child is created.
    ConfirmSkipped,
    /// It removes its finalizer before the Deployment is gone.
    FinalizerFirst,
    /// It writes without the resourceVersion that it has read.
    VersionIgnored,
    /// It writes and deletes whatever has the name.
    UidIgnored,
}

impl flaws::Flaw<ExposeKind> for Flaw {
    fn ignored(self) -> Option<&'static str> {
        match self {
            Self::VersionIgnored => Some("resourceVersion"),
            Self::UidIgnored => Some("uid"),
            _ => None,
        }
    }

    fn plan(self, kind: &ExposeKind, world: &World, now: Timestamp) -> Plan<Action> {
        match self {
            Self::ConfirmSkipped => {
                let mut trusting = world.clone();
                trusting.learned.is_confirmed = true;
                kind.plan(&trusting, now)
            }
            Self::FinalizerFirst if world.is_deleted() && world.has_finalizer() => {
                let patch = MetadataPatch::without(&world.expose.metadata, portal::FINALIZER);
                Plan::act(Action::SetMetadata(patch.unwrap_or_default()))
            }
            _ => kind.plan(world, now),
        }
    }
}

//! The faults that somebody might make in the operator, to see that the search finds them.

use jiff::Timestamp;
use podloom_api::{BrowserObject, names};
use podloom_engine::kind::Kind;
use podloom_engine::plan::Plan;
use podloom_engine::write::MetadataPatch;
use podloom_model::flaws;

use crate::kind::BrowserKind;
use crate::world::{Action, World};

/// A fault of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// There is none.
    None,
    /// It trusts its caches: nothing is read before a pod is created or a session ends.
    ConfirmSkipped,
    /// It does not remember which pod it created, nor that one is gone.
    ExpectationForgotten,
    /// It removes its finalizer before the pod is gone.
    FinalizerFirst,
    /// It writes without the resourceVersion that it has read.
    VersionIgnored,
    /// It writes and deletes whatever has the name.
    UidIgnored,
}

impl flaws::Flaw<BrowserKind> for Flaw {
    fn ignored(self) -> Option<&'static str> {
        match self {
            Self::VersionIgnored => Some("resourceVersion"),
            Self::UidIgnored => Some("uid"),
            _ => None,
        }
    }

    fn before(self, kind: &BrowserKind, browser: &BrowserObject) {
        if self == Self::ExpectationForgotten {
            kind.memory.forget(&browser.metadata);
        }
    }

    fn plan(self, kind: &BrowserKind, world: &World, now: Timestamp) -> Plan<Action> {
        match self {
            Self::ConfirmSkipped => {
                let mut trusting = world.clone();
                trusting.learned.browser_confirmed = true;
                trusting.learned.end_confirmed = true;
                trusting.learned.pod_unknown = false;
                kind.plan(&trusting, now)
            }
            Self::FinalizerFirst if world.is_deleted() && world.has_finalizer() => {
                let finalizer = names::finalizer::BROWSER;
                let patch = MetadataPatch::without(&world.browser.metadata, finalizer);
                Plan::act(Action::SetMetadata(patch.unwrap_or_default()))
            }
            _ => kind.plan(world, now),
        }
    }
}

//! The faults that somebody might make in the operator, to see that the search finds them.

use std::time::Duration;

use jiff::Timestamp;
use podloom_engine::kind::Kind;
use podloom_engine::plan::Plan;
use podloom_model::flaws;

use super::SETTLE;
use crate::cluster::ClusterKind;
use crate::cluster::fixtures::{Action, Outcome, World};

/// A fault of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// There is none.
    None,
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

impl flaws::Flaw<ClusterKind> for Flaw {
    fn ignored(self) -> Option<&'static str> {
        (self == Self::VersionIgnored).then_some("resourceVersion")
    }

    fn observed(self, world: &mut World) {
        if self == Self::IdTrusted {
            world.known.named.clone_from(&world.durable.id);
        }
    }

    fn plan(self, kind: &ClusterKind, world: &World, now: Timestamp) -> Plan<Action> {
        match self {
            Self::FinalizerFirst if world.is_deleted() && world.has_finalizer() => {
                let patch = world.without_finalizer().unwrap_or_default();
                Plan::act(Action::SetMetadata(patch))
            }
            Self::GoneBelieved if world.known.gone_since.is_some() => {
                let mut trusting = world.clone();
                trusting.learned.is_gone = true;
                kind.plan(&trusting, now)
            }
            _ => kind.plan(world, now),
        }
    }

    fn skipped(self, world: &World, action: &Action) -> Option<Outcome> {
        match action {
            Action::Record { change, status } if self == Self::RecordSkipped => {
                let mut cluster = (*world.cluster).clone();
                cluster.status = Some((**status).clone());
                Some(Outcome::Recorded(*change, Box::new(cluster)))
            }
            _ => None,
        }
    }
}

impl Flaw {
    /// How long a request may be on its way.
    pub(super) fn settle(self) -> Duration {
        match self {
            Self::NotSettled => Duration::ZERO,
            _ => SETTLE,
        }
    }
}

//! What the operator's tasks tell each other, and whoever asks.

use std::sync::Arc;
use std::time::Duration;

use podloom_controllers::Readiness;
use podloom_controllers::duties::{Chain, Row};
use podloom_mutators::Slot;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::mutator::WithoutChain;

/// The state of the process; one, shared by all tasks.
pub(crate) struct State {
    /// The chain of plugins.
    pub(super) slot: Arc<Slot>,
    /// What becomes of pods without it.
    pub(super) without_chain: WithoutChain,
    /// The duties that are switched on.
    pub(super) duties: Vec<Arc<DutyState>>,
    /// Cancelled when a stop was asked for.
    pub(super) stop: CancellationToken,
}

/// How one duty is; no other is touched by what happens to it.
pub(crate) struct DutyState {
    /// What is particular to it.
    pub(super) row: &'static Row,
    /// Whether the cluster lets it work.
    pub(super) access: watch::Sender<Access>,
    /// Who works.
    pub(super) role: watch::Sender<Role>,
    /// How long its Lease is good for; none while we have none.
    pub(super) renewed: watch::Sender<Option<Renewed>>,
    /// 1 on its leader.
    pub(super) leader: Gauge,
    /// Its caches.
    pub(super) caches: Readiness,
    /// Cancelled when a stop was asked for.
    pub(super) stop: CancellationToken,
}

/// Whether the cluster lets a duty work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nobody looked yet.
    Unknown,
    /// The API server has answered no look yet, and this is how.
    Unanswered(String),
    /// Something is missing, as these sentences say.
    Lacking(Vec<String>),
    /// All is there.
    Granted,
}

impl Access {
    /// Whether the API server has answered.
    pub(super) fn is_verdict(&self) -> bool {
        matches!(self, Self::Lacking(_) | Self::Granted)
    }
}

/// Who works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// There was no election yet.
    Undecided,
    /// Somebody else; named, if it is known.
    Follower(String),
    /// We do.
    Leader,
    /// We do, without asking.
    Alone,
}

/// A renewal of our Lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Renewed {
    /// When its request was sent.
    pub(super) at: Instant,
    /// How long the others wait after it.
    pub(super) good_for: Duration,
}

impl State {
    /// Nothing is known and nothing was done yet.
    pub(super) fn new(
        without_chain: WithoutChain,
        duties: Vec<Arc<DutyState>>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            slot: Arc::default(),
            without_chain,
            duties,
            stop,
        }
    }

    /// Whether anything here passes pods through the chain.
    pub(super) fn needs_chain(&self) -> bool {
        self.duties
            .iter()
            .any(|duty| duty.row.chain == Chain::Needed)
    }

    /// The duty of that name, if it is switched on.
    pub(super) fn duty(&self, name: &str) -> Option<&DutyState> {
        let mut duties = self.duties.iter();
        duties.find(|duty| duty.row.name == name).map(Arc::as_ref)
    }
}

impl DutyState {
    /// Nothing is known and nothing was done yet.
    pub(super) fn new(row: &'static Row, leader: Gauge, stop: CancellationToken) -> Self {
        Self {
            row,
            access: watch::Sender::new(Access::Unknown),
            role: watch::Sender::new(Role::Undecided),
            renewed: watch::Sender::new(None),
            leader,
            caches: Readiness::default(),
            stop,
        }
    }

    /// Waits until nothing is missing, as far as we know.
    pub(super) async fn may_work(&self) {
        let mut access = self.access.subscribe();
        // An error would mean that the state is gone.
        let _ = access
            .wait_for(|access| !matches!(access, Access::Lacking(_)))
            .await;
    }

    /// Takes a role. A leader's Lease is renewed after this, and anybody else has none.
    pub(super) fn take(&self, role: Role) {
        if role != Role::Leader {
            self.renewed.send_replace(None);
        }
        self.leader
            .set(i64::from(matches!(role, Role::Leader | Role::Alone)));
        self.role.send_replace(role);
    }
}

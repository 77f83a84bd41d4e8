//! The state that the operator's tasks share, and that the HTTP endpoints show.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use podloom_controllers::ChainExceptions;
use podloom_controllers::duties::{Chain, Row};
use podloom_engine::readiness::Readiness;
use podloom_mutators::Slot;
use podloom_webhook::CertificateSlot;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::candidate::CandidateChain;
use super::history::History;
use super::rollout::Follower;
use crate::mutator::{Chains, FastLane, NoChainPolicy};
use crate::reports::Notes;

/// The state of the process, shared by all tasks.
pub(crate) struct OperatorState {
    /// The chain of plugins.
    pub(super) slot: Arc<Slot>,
    /// What happens to pods without a chain.
    pub(super) no_chain_policy: NoChainPolicy,
    /// Which calls of the chain begin on threads of the runtime. All duties share it.
    pub(super) lane: Arc<FastLane>,
    /// The chain that is only compared with the serving one, if there is any.
    pub(super) candidate: Option<Arc<CandidateChain>>,
    /// Follows the ChainRollout; none if the candidate is only tried.
    pub(super) follower: Option<Arc<Follower>>,
    /// What the console shows of the past; none if it is off.
    pub(super) history: Option<Arc<History>>,
    /// The ChainExceptions; none without webhooks.
    pub(super) exceptions: Option<ChainExceptions>,
    /// What was found, for reports; none if there are none.
    pub(super) notes: Option<Arc<Notes>>,
    /// The enabled duties.
    pub(super) duties: Vec<Arc<DutyState>>,
    /// The certificate of the webhooks; none if they are off or served without TLS.
    pub(super) certificate: Option<Arc<CertificateSlot>>,
    /// Cancelled when the operator stops.
    pub(super) stop: CancellationToken,
}

/// The state of one duty; duties do not affect each other.
pub(crate) struct DutyState {
    /// Its row in the table of duties.
    pub(super) row: &'static Row,
    /// Whether its kinds are served and its rights granted.
    pub(super) access: watch::Sender<Access>,
    /// The optional rights that are missing.
    pub(super) lacks: watch::Sender<Vec<Lack>>,
    /// The metric: how many these are.
    pub(super) lacking: Gauge,
    /// Whether at some moment none of the rights was missing that a chain needs which writes labels. It never becomes false again.
    pub(super) had_label_rights: AtomicBool,
    /// Whether a check of readiness passed at some moment.
    pub(super) was_ready: AtomicBool,
    /// Whether this replica works.
    pub(super) role: watch::Sender<Role>,
    /// The last renewal of its Lease; none while another replica holds it.
    pub(super) renewed: watch::Sender<Option<Renewed>>,
    /// The metric: 1 if this replica is the leader.
    pub(super) leader: Gauge,
    /// Which of its caches are synced.
    pub(super) caches: Readiness,
    /// Cancelled when the operator stops.
    pub(super) stop: CancellationToken,
}

/// An optional right that is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lack {
    /// Who may not do what.
    pub(super) reason: String,
    /// What that costs.
    pub(super) without: &'static str,
    /// Whether it only matters while a plugin may write labels.
    pub(super) is_for_labels: bool,
}

/// Whether a duty's kinds are served and its rights granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Not checked yet.
    Unknown,
    /// The API server has not answered a check yet, for this reason.
    Unanswered(String),
    /// Kinds or rights are missing: one sentence for each.
    Lacking(Vec<String>),
    /// Nothing is missing but optional rights.
    Granted,
}

/// The part that this replica plays for a duty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// There was no election yet.
    Undecided,
    /// Stands by for this leader.
    Follower(String),
    /// Works as the elected leader.
    Leader,
    /// Works without leader election.
    Alone,
}

/// A renewal of our Lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Renewed {
    /// When its request was sent.
    pub(super) at: Instant,
    /// How long after it the other replicas wait.
    pub(super) good_for: Duration,
}

impl OperatorState {
    /// The state at the start, without what an operator need not have.
    pub(super) fn new(
        no_chain_policy: NoChainPolicy,
        duties: Vec<Arc<DutyState>>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            slot: Arc::default(),
            no_chain_policy,
            lane: Arc::default(),
            candidate: None,
            follower: None,
            history: None,
            exceptions: None,
            notes: None,
            duties,
            certificate: None,
            stop,
        }
    }

    /// The chains that pods pass.
    pub(super) fn chains(&self) -> Chains {
        let candidate = self.candidate.as_ref();
        Chains {
            serving: Arc::clone(&self.slot),
            split: candidate.and_then(|candidate| candidate.split.clone()),
        }
    }

    /// Whether any duty passes pods through the chain.
    pub(super) fn needs_chain(&self) -> bool {
        self.duties
            .iter()
            .any(|duty| duty.row.chain == Chain::Needed)
    }

    /// The duty of that name, if it is enabled.
    pub(super) fn duty(&self, name: &str) -> Option<&DutyState> {
        let mut duties = self.duties.iter();
        duties.find(|duty| duty.row.name == name).map(Arc::as_ref)
    }
}

impl DutyState {
    /// The state at the start.
    pub(super) fn new(row: &'static Row, leader: Gauge, stop: CancellationToken) -> Self {
        Self {
            row,
            access: watch::Sender::new(Access::Unknown),
            lacks: watch::Sender::default(),
            lacking: Gauge::default(),
            had_label_rights: AtomicBool::default(),
            was_ready: AtomicBool::default(),
            role: watch::Sender::new(Role::Undecided),
            renewed: watch::Sender::new(None),
            leader,
            caches: Readiness::default(),
            stop,
        }
    }

    /// Whether the API server has answered a check.
    pub(super) fn has_verdict(&self) -> bool {
        matches!(*self.access.borrow(), Access::Lacking(_) | Access::Granted)
    }

    /// Waits until no kind or right is known to be missing.
    pub(super) async fn may_work(&self) {
        let mut access = self.access.subscribe();
        // It fails only when the state is dropped.
        let _ = access
            .wait_for(|access| !matches!(access, Access::Lacking(_)))
            .await;
    }

    /// Changes the role. Only a leader has a Lease; its first renewal is noted after this.
    pub(super) fn take(&self, role: Role) {
        if role != Role::Leader {
            self.renewed.send_replace(None);
        }
        self.leader
            .set(i64::from(matches!(role, Role::Leader | Role::Alone)));
        self.role.send_replace(role);
    }
}

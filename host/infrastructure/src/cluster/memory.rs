//! What is remembered of Clusters and no status says: what IM answered last, what failed, and what was looked up.
//!
//! Nothing of it is needed. After a restart it is empty: then IM is read first, an open attempt is looked up, and waits go on from the
//! number of attempts in the status.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use podloom_api::names::infrastructure::{condition, reason};
use podloom_api::{ClusterObject, ClusterStatus, OperationKind};
use podloom_engine::plan::later;
use podloom_turns::lock;
use serde_json::Value;

use super::durable::Durable;
use crate::im::{InfrastructureId, Owner, Reading};
use crate::resolve::{Backend, Trouble};

/// What is remembered of each Cluster, by UID. Cheap to clone; all clones share it.
#[derive(Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<HashMap<String, Known>>>);

/// What is remembered of one Cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// What the last answers depended on, besides IM. If it changes, nothing has to wait any more.
    pub(crate) inputs: Option<Inputs>,
    /// The last reading of the state since the last mutating request.
    pub(crate) reading: Option<At<Reading>>,
    /// Before this time, IM is asked nothing: it was busy or failed.
    pub(crate) rest: Option<Timestamp>,
    /// Before this time, the state is not read: a mutating request has just been sent.
    pub(crate) quiet: Option<Timestamp>,
    /// How many requests failed in a row.
    pub(crate) failures: u32,
    /// How many requests in a row were not sent, since too many of our own were running.
    pub(crate) limited: u32,
    /// A Secret that the last request needed was missing.
    pub(crate) missing: Option<Trouble>,
    /// Why the last request failed; none after one that did not.
    pub(crate) trouble: Option<Trouble>,
    /// Why IM did not do what the last mutating request asked for. Only another one can change that.
    pub(crate) refusal: Option<Trouble>,
    /// The state was read, and there was no infrastructure.
    pub(crate) missing_since: Option<Timestamp>,
    /// The infrastructure is gone for good, and not built again.
    pub(crate) gone: Option<Trouble>,
    /// There is no infrastructure of this Cluster's name, by what is known of the call at that time; none if that is not known.
    pub(crate) clean: Option<Option<Timestamp>>,
    /// Since when IM has answered every request; none before the first answer, and after a request that it did not answer.
    pub(crate) heard_since: Option<Timestamp>,
    /// As whom the create request was sent whose outcome is unknown. Its infrastructure belongs to this account, even if the Secret has
    /// another password by now. It is forgotten as soon as the outcome is known.
    pub(crate) sent_as: Option<Owner>,
    pub(crate) search: Search,
    /// The end of IM's log.
    pub(crate) log: Option<At<String>>,
    /// What an update sent whose outcome is not known.
    pub(crate) unsure: Option<Arc<Value>>,
    /// The generation of the spec whose template was sent last.
    pub(crate) tried: Option<i64>,
    /// IM has accepted the deletion, and did not fail since.
    pub(crate) is_deleting: bool,
    /// Accepted deletions after which the infrastructure was there as before.
    pub(crate) undone: Undone,
    /// The infrastructure that may be asked about: this process created it, found it by its name, read its name, or learned that it has
    /// no template to read a name from.
    pub(crate) named: Option<InfrastructureId>,
    /// Since when IM has said that the infrastructure which was to be deleted does not exist.
    pub(crate) gone_since: Option<Timestamp>,
    /// More than one infrastructure may have the Cluster's name: a search found several, or the process that searched has ended.
    pub(crate) may_have_twins: bool,
    /// The last deletion was refused for a moment, since machines are being added.
    pub(crate) is_busy: bool,
    /// IM was asked to give up what it cannot delete.
    pub(crate) is_forced: bool,
    /// Whether machines are missing.
    pub(crate) shortage: Shortage,
    /// IM has no template of the infrastructure.
    pub(crate) has_no_template: bool,
    /// The Secret with the kubeconfig as it was last written or compared.
    pub(crate) kept: Option<OurSecret>,
    /// Why there is no kubeconfig.
    pub(crate) kubeconfig: Option<KubeconfigTrouble>,
    pub(crate) probe: Probe,
    pub(crate) owner: Ownership,
    /// What could not be written into the status.
    pub(crate) unsaved: Option<Box<Unsaved>>,
    /// How often somebody doubted the reading.
    pub(crate) doubts: u32,
}

/// Something, and when it was seen.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct At<T> {
    pub(crate) what: T,
    pub(crate) at: Timestamp,
}

/// Deletions that IM accepted, and the cloud or IM has undone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Undone {
    /// How many.
    pub(crate) times: u32,
    /// The request that was counted last.
    pub(crate) call: Option<Timestamp>,
}

/// A search for an infrastructure of the Cluster's name, as far as it got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Search {
    /// The call that it is about.
    pub(crate) call: Option<Timestamp>,
    /// What was read.
    pub(crate) read: BTreeSet<InfrastructureId>,
    /// What has the name.
    pub(crate) matches: BTreeSet<InfrastructureId>,
}

/// Our Secret with the kubeconfig, without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OurSecret {
    /// Its resource version.
    pub(crate) version: Option<String>,
    /// Its annotation: the operation that it is from.
    pub(crate) mark: Option<String>,
}

/// Why there is no kubeconfig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KubeconfigTrouble {
    pub(crate) trouble: Trouble,
    /// The operation that it is about.
    pub(crate) mark: String,
    /// How often in a row.
    pub(crate) failures: u32,
    /// When to ask again.
    pub(crate) next: Timestamp,
}

/// What probes of the cluster found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Probe {
    /// When the last one was.
    pub(crate) at: Option<Timestamp>,
    /// Whether the API server counts as answering.
    pub(crate) answers: bool,
    /// How many failed in a row.
    pub(crate) failures: u32,
    /// Why the last one failed.
    pub(crate) message: Option<String>,
}

/// Whether the account that we have now owns the infrastructure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// Nothing says that it does not.
    #[default]
    Assumed,
    /// It does not; the account with the previous password may add it.
    ToAdd,
    /// It was added, or could not be.
    Tried,
}

/// What came of a request, if the status does not say it yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Unsaved {
    /// What the status said when the request was sent.
    pub(crate) before: Durable,
    /// What it should say.
    pub(crate) after: Durable,
}

impl Memory {
    /// Returns what is remembered of a Cluster. Of a new one, what its status says about the time before a restart.
    pub(crate) fn of(&self, uid: &str, cluster: &ClusterObject) -> Known {
        let all = lock(&self.0);
        let known = all.get(uid).cloned();
        drop(all);
        known.unwrap_or_else(|| Known::of(cluster))
    }

    /// Remembers what a pass knows when it begins.
    pub(crate) fn begin(&self, uid: &str, known: Known) {
        let mut all = lock(&self.0);
        all.entry(uid.to_owned()).or_default().replace(known);
    }

    /// Remembers what a pass knows now, unless the Cluster was forgotten since it began.
    pub(crate) fn keep(&self, uid: &str, known: Known) {
        let mut all = lock(&self.0);
        if let Some(before) = all.get_mut(uid) {
            before.replace(known);
        }
    }

    /// Returns the last reading of a Cluster's state.
    pub(crate) fn reading(&self, uid: &str) -> Option<Reading> {
        let all = lock(&self.0);
        Some(all.get(uid)?.reading.as_ref()?.what.clone())
    }

    /// Drops the last reading of a Cluster's state, so that its next pass reads it again: somebody saw something else.
    pub(crate) fn doubt(&self, uid: &str) {
        let mut all = lock(&self.0);
        if let Some(known) = all.get_mut(uid) {
            known.reading = None;
            known.doubts = known.doubts.wrapping_add(1);
        }
    }

    /// Forgets a Cluster that is gone.
    pub(crate) fn forget(&self, uid: &str) {
        let mut all = lock(&self.0);
        all.remove(uid);
    }

    /// How many Clusters are remembered.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        lock(&self.0).len()
    }
}

impl Undone {
    /// What follows the number in a message.
    pub(crate) const TEXT: &str = " deletions that the Infrastructure Manager accepted";

    /// Counts the deletion that was requested then, once.
    pub(crate) fn count(&mut self, call: Option<Timestamp>) {
        if self.call != call {
            self.times = self.times.saturating_add(1);
            self.call = call;
        }
    }

    /// The number in a message that a process before this one has written.
    fn times(message: &str) -> u32 {
        let before = message.split(Self::TEXT).next().unwrap_or_default();
        let number = before.rsplit(' ').next().unwrap_or_default();
        number.parse().unwrap_or_default()
    }
}

impl Search {
    /// Returns a new search about a call.
    pub(crate) fn about(call: Option<Timestamp>) -> Self {
        Self {
            call,
            ..Self::default()
        }
    }
}

impl Known {
    /// What a status says about the time before a restart: whether the cluster answered, what IM refused, and that a deletion had begun.
    /// Without what was refused, a rejected template would be sent once more after each restart.
    pub(crate) fn of(cluster: &ClusterObject) -> Self {
        let status = cluster.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_deref());
        let find = |type_: &str| {
            let mut conditions = conditions.unwrap_or_default().iter();
            conditions.find(|condition| condition.type_ == type_)
        };
        let answers = find(condition::CONNECTED).is_some_and(|it| it.status == "True");
        let applied = find(condition::TEMPLATE_APPLIED)
            .filter(|it| it.observed_generation == cluster.metadata.generation);
        let refusal = applied.and_then(|it| {
            let known = [reason::TEMPLATE_REJECTED, reason::UPDATE_REFUSED];
            let reason = known.into_iter().find(|known| *known == it.reason)?;
            Some(Trouble {
                reason,
                message: it.message.clone(),
            })
        });
        let undone = find(condition::INFRASTRUCTURE_READY);
        let undone = undone.filter(|it| it.message.contains(Undone::TEXT));
        Self {
            undone: Undone {
                times: undone.map_or(0, |it| Undone::times(&it.message)),
                call: Durable::of(status).last_call_at(),
            },
            tried: refusal.as_ref().and(cluster.metadata.generation),
            refusal,
            may_have_twins: is_deletion_begun(status),
            probe: Probe {
                answers,
                ..Probe::default()
            },
            ..Self::default()
        }
    }

    /// Takes over what a pass knows. A doubt that it has not seen counts on.
    fn replace(&mut self, known: Self) {
        let doubts = self.doubts;
        *self = known;
        if self.doubts != doubts {
            self.doubts = doubts;
            self.reading = None;
        }
    }

    /// Returns what the status of a Cluster says, and what could not be written into it.
    pub(crate) fn recall(&mut self, cluster: &ClusterObject) -> Durable {
        let mut durable = Durable::of(cluster.status.as_ref());
        if let Some(unsaved) = self.unsaved.take() {
            let mut before = unsaved.before.clone();
            before.scheduled_to.clone_from(&durable.scheduled_to);
            // Anything else was written by somebody else, and what is remembered is about something that is not there.
            if before == durable {
                let scheduled_to = durable.scheduled_to.take();
                durable = unsaved.after.clone();
                durable.scheduled_to = scheduled_to;
                self.unsaved = Some(unsaved);
            } else {
                // What the reading meant for the operation goes with it, so IM is asked again.
                self.reading = None;
            }
        }
        // Without it in the spec, the binding is a scheduler's.
        if let Some(chosen) = &cluster.spec.cloud_ref {
            durable.scheduled_to = Some(chosen.clone());
        }
        durable
    }

    /// Forgets what to wait for, and what was refused, if something changed that the answer depends on.
    pub(crate) fn refresh(&mut self, inputs: &Inputs) {
        let Some(before) = self.inputs.replace(inputs.clone()) else {
            return;
        };
        if before == *inputs {
            return;
        }
        self.rest = None;
        self.failures = 0;
        self.missing = None;
        self.trouble = None;
        self.refusal = None;
        self.gone = None;
        self.owner = Ownership::Assumed;
        self.kubeconfig = None;
        if !before.has_backend_of(inputs) {
            self.reading = None;
            self.missing_since = None;
            self.heard_since = None;
        }
    }
}

/// Whether a deletion was recorded. It may have been that of the first of several infrastructures.
fn is_deletion_begun(status: Option<&ClusterStatus>) -> bool {
    let operation = status.and_then(|status| status.operation.as_ref());
    operation.is_some_and(|it| it.kind == OperationKind::Delete)
}

// How long to wait before a retry: the poll interval, doubled with each failure in a row, give or take a tenth.
//
// The share of a wait is a hash of its Cluster and its number, so that a plan stays pure and a thousand Clusters do not come back at
// once.

/// The longest wait, unless the poll interval itself is longer.
const LONGEST: Duration = Duration::from_mins(10);

/// Returns how long to wait after this many failures in a row: one poll interval after the first one.
pub(crate) fn wait(poll: Duration, failures: u32, uid: &str) -> Duration {
    let doublings = failures.saturating_sub(1);
    let longest = LONGEST.max(poll);
    let whole = poll
        .saturating_mul(2_u32.saturating_pow(doublings))
        .min(longest);
    let mut hasher = DefaultHasher::new();
    (uid, failures).hash(&mut hasher);
    // From 900 to 1100 thousandths.
    let share = u32::try_from(hasher.finish() % 201).unwrap_or_default() + 900;
    whole.saturating_mul(share) / 1000
}

/// Returns the longest wait.
pub(crate) fn longest(poll: Duration) -> Duration {
    LONGEST.max(poll)
}

// Machines that are missing although IM says that all are configured: somebody deleted them, and IM only knows those that are left.

/// What is known of missing machines.
///
/// Whether IM counts as we do is not known. So the template is sent again once; if IM then still has as few machines, it has what it takes
/// the template for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// None are missing.
    #[default]
    None,
    /// Some have seemed to be missing since then. IM may still be adding them.
    Seen(Timestamp),
    /// Some are missing.
    Found,
    /// Some were missing, and the template was sent again.
    Sent,
    /// IM has this many, and makes no more of the template.
    Accepted(usize),
}

impl Shortage {
    /// Returns what is known after a reading of configured machines: so many of those that the template asks for.
    pub(crate) fn after(
        self,
        (total, wanted): (usize, usize),
        at: Timestamp,
        poll: Duration,
    ) -> Self {
        match self {
            _ if wanted <= total => Self::None,
            Self::Accepted(accepted) if accepted == total => self,
            Self::Sent => Self::Accepted(total),
            Self::Seen(since) if later(since, poll) <= at => Self::Found,
            Self::Seen(_) | Self::Found => self,
            Self::None | Self::Accepted(_) => Self::Seen(at),
        }
    }

    /// Whether it is not clear yet that nothing is missing.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Self::Seen(_) | Self::Found | Self::Sent)
    }
}

// What the answers of IM depend on, besides IM itself.

/// What the answers of IM depend on, besides IM itself. If it changes, a request that failed is worth another try at once.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Inputs {
    /// The generation of the Cluster's spec.
    pub(crate) generation: Option<i64>,
    pub(crate) is_deleted: bool,
    /// What somebody asks for with an annotation, so that nobody has to wait until a deletion that fails is tried again.
    pub(crate) on_delete: OnDelete,
    pub(crate) backend: Option<Backend>,
    /// The versions of the Secrets that a request needs; none of one that is missing or may not be read.
    pub(crate) secrets: Vec<Option<String>>,
}

impl Inputs {
    /// Whether the others have the same Cloud, provider and Secrets.
    pub(crate) fn has_backend_of(&self, other: &Self) -> bool {
        self.backend == other.backend && self.secrets == other.secrets
    }
}

/// How a Cluster that is being deleted ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnDelete {
    /// When IM has deleted everything.
    Wait,
    /// IM may give up what it cannot delete.
    Force,
    /// Without IM.
    Abandon,
}

#[cfg(test)]
mod tests;

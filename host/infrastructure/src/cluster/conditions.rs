//! What the conditions of a Cluster say.

use jiff::Timestamp;
use podloom_api::names::infrastructure::annotation::{ABANDON, FORCE, ON_DELETE};
use podloom_api::names::infrastructure::{condition, reason};
use podloom_api::{ClusterState, OperationKind};
use podloom_engine::conditions::{ConditionStatus, NewCondition};

use super::memory::{Shortage, Undone};
use super::world::{Edit, SeenSecret, Settings, World};
use crate::im::ImState;
use crate::in_use::Guard;
use crate::resolve::{Backend, Trouble};

/// What one condition says.
#[derive(Clone)]
pub(crate) struct Finding {
    pub(crate) type_: &'static str,
    pub(crate) status: ConditionStatus,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl Finding {
    fn new(
        type_: &'static str,
        status: ConditionStatus,
        (reason, message): (&'static str, impl Into<String>),
    ) -> Self {
        Self {
            type_,
            status,
            reason,
            message: message.into(),
        }
    }

    fn yes(type_: &'static str, why: (&'static str, impl Into<String>)) -> Self {
        Self::new(type_, ConditionStatus::True, why)
    }

    fn no(type_: &'static str, why: (&'static str, impl Into<String>)) -> Self {
        Self::new(type_, ConditionStatus::False, why)
    }

    pub(crate) fn condition(&self) -> NewCondition {
        NewCondition::new(self.type_, self.status, self.reason, self.message.clone())
    }
}

/// Whether it is bound to a cloud that can be used.
pub(crate) fn scheduled(world: &World) -> Finding {
    let no = |why: (&'static str, String)| Finding::no(condition::SCHEDULED, why);
    let yes = |why: (&'static str, String)| Finding::yes(condition::SCHEDULED, why);
    let durable = &world.durable;
    if let Some(unresolved) = world.unresolved() {
        return no((unresolved.reason, unresolved.message.clone()));
    }
    let Some(backend) = world.resolved() else {
        let message =
            "no cloud is chosen: set spec.cloudRef, or let a scheduler set status.scheduledTo";
        return no((reason::UNBOUND, message.to_owned()));
    };
    let name = |cloud: &podloom_api::CloudRef| format!("{} {}", cloud.kind.as_str(), cloud.name);
    if let Some(going) = going(world, backend)
        && durable.id.is_none()
        && !durable.is_attempt_open()
    {
        let message = format!(
            "{going} is being deleted, so no machines are created on {}; bind the Cluster to another cloud",
            name(&backend.cloud)
        );
        return no((reason::CLOUD_DELETING, message));
    }
    match (&durable.running_on, &durable.scheduled_to) {
        (Some(runs), Some(wanted)) if runs != wanted => {
            let message = format!(
                "the machines stay on {}: moving them to {} is not supported",
                name(runs),
                name(wanted)
            );
            yes((reason::MOVE_NOT_SUPPORTED, message))
        }
        _ => yes((reason::BOUND, format!("{} is used", name(&backend.cloud)))),
    }
}

/// What of a Cloud and its provider is being deleted.
fn going(world: &World, backend: &Backend) -> Option<String> {
    let seen = || {
        let is_seen = world.learned.guard == Some(Guard::Deleted);
        is_seen.then(|| "the cloud or its provider".to_owned())
    };
    backend.going.clone().or_else(seen)
}

/// Whether IM has the template.
pub(crate) fn template_applied(world: &World, edit: &Edit) -> Finding {
    let type_ = condition::TEMPLATE_APPLIED;
    let no = |reason, message: &str| Finding::no(type_, (reason, message));
    let refusal = world.known.refusal.as_ref();
    let is_refused = |of: &str| refusal.filter(|it| it.reason == of);
    match edit {
        Edit::Invalid(problem) => return no(reason::TEMPLATE_INVALID, problem),
        Edit::Unsupported(message) => return no(reason::UNSUPPORTED_CHANGE, message),
        _ => {}
    }
    if let Some(refusal) = is_refused(reason::TEMPLATE_REJECTED) {
        return no(refusal.reason, &refusal.message);
    }
    let is_ahead = matches!(edit, Edit::Send { .. });
    if let Some(refusal) = is_refused(reason::UPDATE_REFUSED).filter(|_| is_ahead) {
        return no(refusal.reason, &refusal.message);
    }
    match world.durable.id.is_none() || is_ahead {
        true => no(
            reason::PENDING,
            "the Infrastructure Manager has not accepted the template yet",
        ),
        false => {
            let message = "the Infrastructure Manager has the template";
            Finding::yes(type_, (reason::APPLIED, message))
        }
    }
}

/// Whether the kubeconfig is stored.
pub(crate) fn kubeconfig_ready(world: &World) -> Finding {
    let type_ = condition::KUBECONFIG_READY;
    let no = |reason, message: String| Finding::no(type_, (reason, message));
    let name = world.secret_name();
    if world.secret == SeenSecret::Foreign {
        let message = format!(
            "Secret {name} is not this Cluster's and is left alone; delete it, or create another Cluster with another \
             spec.kubeconfigSecretName"
        );
        return no(reason::SECRET_CONFLICT, message);
    }
    if let Some(it) = world.kubeconfig_trouble() {
        return no(it.trouble.reason, it.trouble.message.clone());
    }
    match world.has_kubeconfig() {
        true => {
            let message = format!("the kubeconfig is in Secret {name}");
            Finding::yes(type_, (reason::STORED, message))
        }
        false => no(
            reason::WAITING,
            "the kubeconfig is stored once all machines are configured".to_owned(),
        ),
    }
}

/// Whether the API server of the cluster answers.
pub(crate) fn connected(world: &World, settings: &Settings) -> Finding {
    let type_ = condition::CONNECTED;
    let probe = &world.known.probe;
    if !settings.probe {
        let message = "the operator runs with --probe-clusters=false";
        return Finding::no(type_, (reason::PROBE_DISABLED, message));
    }
    if probe.answers {
        let message = "the API server of the cluster answers";
        return Finding::yes(type_, (reason::PROBE_SUCCEEDED, message));
    }
    match &probe.message {
        Some(message) => Finding::no(type_, (reason::PROBE_FAILED, message.as_str())),
        None => {
            let message = "the API server of the cluster was not asked yet";
            Finding::new(type_, ConditionStatus::Unknown, (reason::WAITING, message))
        }
    }
}

// Whether the machines are configured.

/// After so many deletions that were undone, it is said. The first may have been read too early.
const UNDONE_MIN: u32 = 2;

/// Returns whether the machines are configured: the first row that fits counts.
pub(crate) fn infrastructure_ready(world: &World, now: Timestamp) -> Finding {
    let (status, why) = found(world, now);
    Finding::new(condition::INFRASTRUCTURE_READY, status, why)
}

type Why = (&'static str, String);

fn found(world: &World, now: Timestamp) -> (ConditionStatus, Why) {
    let no = |why: Why| (ConditionStatus::False, why);
    if let Some(why) = lost(world) {
        return no(why);
    }
    if let Some(trouble) = &world.known.trouble {
        let is_idle = world.durable.id.is_some() && world.durable.under_way().is_none();
        let status = match is_idle && trouble.reason == reason::UNREACHABLE {
            // It says nothing about the machines.
            true => ConditionStatus::Unknown,
            false => ConditionStatus::False,
        };
        return (status, why(trouble));
    }
    if let Some(refusal) = &world.known.refusal
        && matches!(refusal.reason, reason::READ_ONLY | reason::FAILED)
    {
        return no(why(refusal));
    }
    if world.is_overdue(now) {
        return no((reason::DEADLINE_EXCEEDED, late(world)));
    }
    if let Some(message) = undone(world) {
        return no((reason::DELETION_UNDONE, message));
    }
    if world.is_deleted() {
        let message = "the Infrastructure Manager deletes the infrastructure".to_owned();
        return no((reason::DELETING, message));
    }
    match world.durable.id {
        None => without(world),
        Some(_) => with(world),
    }
}

/// Why the infrastructure cannot be used at all.
fn lost(world: &World) -> Option<Why> {
    if let Some(gone) = &world.known.gone {
        return Some(why(gone));
    }
    if let Some(rival) = &world.rival {
        let message = format!("the infrastructure belongs to {rival}");
        return Some((reason::ADOPTION_FAILED, message));
    }
    let refusal = world.known.refusal.as_ref()?;
    let is_lost = matches!(
        refusal.reason,
        reason::ADOPTION_FAILED | reason::DUPLICATE_INFRASTRUCTURES
    );
    is_lost.then(|| why(refusal))
}

/// There is no infrastructure yet, or not any more.
fn without(world: &World) -> (ConditionStatus, Why) {
    let no = |reason, message: &str| (ConditionStatus::False, (reason, message.to_owned()));
    match &world.durable.operation {
        Some(operation) if operation.last_call_at.is_some() || operation.attempts > 0 => no(
            reason::CREATING,
            "the Infrastructure Manager is asked to create the infrastructure",
        ),
        Some(_) => no(
            reason::VANISHED,
            "the Infrastructure Manager does not know the infrastructure any more; it is created again",
        ),
        None => {
            let message = "nothing was created yet".to_owned();
            (ConditionStatus::Unknown, (reason::UNKNOWN, message))
        }
    }
}

fn with(world: &World) -> (ConditionStatus, Why) {
    let no = |reason| (ConditionStatus::False, (reason, said(world)));
    let under_way = world.durable.under_way().map(|it| it.kind);
    match world.im_state() {
        Some(ImState::Configured) if world.known.shortage == Shortage::Found => {
            let why = (reason::MACHINES_MISSING, fewer(world));
            (ConditionStatus::False, why)
        }
        Some(ImState::Configured) if under_way.is_none() => {
            let message = match world.known.shortage {
                Shortage::Accepted(_) => format!("all machines are configured; {}", fewer(world)),
                _ => "all machines are configured".to_owned(),
            };
            (ConditionStatus::True, (reason::CONFIGURED, message))
        }
        Some(ImState::Unconfigured) => no(reason::UNCONFIGURED),
        Some(ImState::Failed) => no(reason::FAILED),
        Some(ImState::Stopped | ImState::Off) => no(reason::STOPPED),
        Some(ImState::Unknown | ImState::Deleting) => no(reason::UNKNOWN),
        Some(ImState::Configured | ImState::Pending | ImState::Running) | None => {
            no(match under_way {
                Some(OperationKind::Create) => reason::CREATING,
                Some(OperationKind::Update) => reason::UPDATING,
                Some(_) => reason::RECONFIGURING,
                None => reason::UNKNOWN,
            })
        }
    }
}

/// How many machines there are, and how many there should be.
fn fewer(world: &World) -> String {
    let total = world.durable.machines.map_or(0, |machines| machines.total);
    let wanted = world.machines_wanted();
    format!("the template asks for {wanted} machines, and the Infrastructure Manager has {total}")
}

/// What IM says about it.
fn said(world: &World) -> String {
    let state = world.im_state().map(ImState::as_str);
    let log = world.known.log.as_ref().map(|log| log.what.as_str());
    match (state, log.filter(|log| !log.is_empty())) {
        (Some(state), Some(log)) => {
            format!("the Infrastructure Manager says that the infrastructure is {state}: {log}")
        }
        (Some(state), None) => {
            format!("the Infrastructure Manager says that the infrastructure is {state}")
        }
        (None, _) => "the Infrastructure Manager was not asked yet".to_owned(),
    }
}

fn late(world: &World) -> String {
    let operation = world.durable.under_way();
    let kind = operation.map_or(OperationKind::Create, |it| it.kind);
    let seconds = world.timeout(kind).as_secs();
    let what = kind.as_str().to_lowercase();
    let said = undone(world).unwrap_or_else(|| said(world));
    format!("{what} takes longer than {seconds} s; {said}")
}

/// What is said once the infrastructure was there as before after more than one deletion that IM accepted.
fn undone(world: &World) -> Option<String> {
    let times = world.known.undone.times;
    let operation = world.durable.under_way();
    let operation =
        operation.filter(|it| it.kind == OperationKind::Delete && times >= UNDONE_MIN)?;
    let state = world.im_state().map_or("there", ImState::as_str);
    Some(format!(
        "{times}{} since {} were undone: the infrastructure is {state} again. Look in the cloud for what keeps the machines, such as a \
         lock, or a right that the account lacks. The annotation {ON_DELETE} can help: {FORCE} gives up what cannot be deleted, \
         {ABANDON} lets the Cluster go and leaves the machines",
        Undone::TEXT,
        operation.started_at.0
    ))
}

fn why(trouble: &Trouble) -> Why {
    (trouble.reason, trouble.message.clone())
}

// The state of a Cluster: a table, in which the first row that fits counts.

/// What the state depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// It is being deleted.
    pub(crate) is_deleted: bool,
    /// Trying again is useless until something changes.
    pub(crate) is_stalled: bool,
    /// Something failed and is tried again.
    pub(crate) is_failing: bool,
    /// A create request was recorded, and the machines were never configured.
    pub(crate) is_created: bool,
    /// An update, a repair or a start is under way, or about to be.
    pub(crate) is_changed: bool,
    /// The machines are configured.
    pub(crate) is_configured: bool,
    /// The kubeconfig is stored, and the API server answers.
    pub(crate) is_connected: bool,
}

/// Returns the state.
pub(crate) fn state(facts: Facts) -> ClusterState {
    let rows = [
        (facts.is_deleted, ClusterState::Deleting),
        (facts.is_stalled, ClusterState::Failed),
        (facts.is_failing, ClusterState::FailingReconciliation),
        (facts.is_created, ClusterState::Creating),
        (facts.is_changed, ClusterState::Reconciling),
        (
            facts.is_configured && facts.is_connected,
            ClusterState::Online,
        ),
        (facts.is_configured, ClusterState::Connecting),
    ];
    let fits = rows.into_iter().find(|(fits, _)| *fits);
    fits.map_or(ClusterState::Pending, |(_, state)| state)
}

#[cfg(test)]
mod tests;

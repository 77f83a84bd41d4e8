//! What the conditions of a Cluster say.

mod infrastructure;

use podloom_api::names::infrastructure::{condition, reason};

use super::edit::Edit;
use super::world::{SeenSecret, Settings, World};
use crate::in_use::Guard;
use crate::resolve::Backend;
use podloom_engine::conditions::{ConditionStatus, NewCondition};

pub(crate) use self::infrastructure::infrastructure_ready;

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

    pub(crate) fn condition(&self) -> NewCondition {
        NewCondition::new(self.type_, self.status, self.reason, self.message.clone())
    }
}

/// Whether it is bound to a cloud that can be used.
pub(crate) fn scheduled(world: &World) -> Finding {
    let no = |why| Finding::new(condition::SCHEDULED, ConditionStatus::False, why);
    let yes = |why| Finding::new(condition::SCHEDULED, ConditionStatus::True, why);
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
    let no = |reason, message: &str| {
        let type_ = condition::TEMPLATE_APPLIED;
        Finding::new(type_, ConditionStatus::False, (reason, message))
    };
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
    let is_ahead = matches!(edit, Edit::Send(_));
    if let Some(refusal) = is_refused(reason::UPDATE_REFUSED).filter(|_| is_ahead) {
        return no(refusal.reason, &refusal.message);
    }
    match world.durable.id.is_none() || is_ahead {
        true => no(
            reason::PENDING,
            "the Infrastructure Manager has not accepted the template yet",
        ),
        false => Finding::new(
            condition::TEMPLATE_APPLIED,
            ConditionStatus::True,
            (
                reason::APPLIED,
                "the Infrastructure Manager has the template",
            ),
        ),
    }
}

/// Whether the kubeconfig is stored.
pub(crate) fn kubeconfig_ready(world: &World) -> Finding {
    let type_ = condition::KUBECONFIG_READY;
    let no =
        |reason, message: String| Finding::new(type_, ConditionStatus::False, (reason, message));
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
        true => Finding::new(
            type_,
            ConditionStatus::True,
            (
                reason::STORED,
                format!("the kubeconfig is in Secret {name}"),
            ),
        ),
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
        let why = (
            reason::PROBE_DISABLED,
            "the operator runs with --probe-clusters=false",
        );
        return Finding::new(type_, ConditionStatus::False, why);
    }
    if probe.answers {
        let why = (
            reason::PROBE_SUCCEEDED,
            "the API server of the cluster answers",
        );
        return Finding::new(type_, ConditionStatus::True, why);
    }
    match &probe.message {
        Some(message) => Finding::new(
            type_,
            ConditionStatus::False,
            (reason::PROBE_FAILED, message.as_str()),
        ),
        None => Finding::new(
            type_,
            ConditionStatus::Unknown,
            (
                reason::WAITING,
                "the API server of the cluster was not asked yet",
            ),
        ),
    }
}

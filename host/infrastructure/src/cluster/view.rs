//! What the status of a Cluster is made from: what each condition says, and the facts that its state depends on.

use jiff::Timestamp;
use podloom_api::names::infrastructure::{condition, reason};
use podloom_api::{ClusterState, ClusterStatus, OperationKind};
use podloom_engine::conditions::{ConditionStatus, NewCondition, conditions as merged};

use super::conditions::{self, Facts, Finding, state};
use super::world::{Edit, Settings, World};
use crate::im::ImState;
use crate::resolve::Trouble;

/// What is known of a Cluster.
pub(crate) struct View<'a> {
    pub(crate) world: &'a World,
    /// What the conditions say, without Ready and Stalled.
    pub(crate) findings: Vec<Finding>,
    /// Why trying again is useless.
    pub(crate) stalled: Option<Trouble>,
    pub(crate) state: ClusterState,
}

/// Reasons for which trying again is useless.
const FINAL: [&str; 14] = [
    reason::CLOUD_DELETING,
    reason::CLOUD_NOT_FOUND,
    reason::PROVIDER_NOT_FOUND,
    reason::SECRET_NOT_FOUND,
    reason::TEMPLATE_INVALID,
    reason::TEMPLATE_REJECTED,
    reason::UNSUPPORTED_CHANGE,
    reason::ENDPOINT_CHANGED,
    reason::ADOPTION_FAILED,
    reason::DUPLICATE_INFRASTRUCTURES,
    reason::CREDENTIALS_REJECTED,
    reason::KUBECONFIG_INVALID,
    reason::KUBECONFIG_UNSAFE,
    reason::SECRET_CONFLICT,
];

/// Reasons for which nothing is done if the drift policy forbids repairs.
const REPORTED: [&str; 5] = [
    reason::MACHINES_MISSING,
    reason::UNCONFIGURED,
    reason::FAILED,
    reason::STOPPED,
    reason::VANISHED,
];

impl<'a> View<'a> {
    pub(crate) fn of(world: &'a World, edit: &Edit, settings: &Settings, now: Timestamp) -> Self {
        let findings = match world.is_registered() {
            true => vec![conditions::connected(world, settings)],
            false => vec![
                conditions::scheduled(world),
                conditions::template_applied(world, edit),
                conditions::infrastructure_ready(world, now),
                conditions::kubeconfig_ready(world),
                conditions::connected(world, settings),
            ],
        };
        let stalled = stalled(world, &findings);
        let facts = Facts {
            is_deleted: world.is_deleted(),
            is_stalled: stalled.is_some(),
            is_failing: is_failing(world, now),
            is_created: is_created(world),
            is_changed: is_changed(world, edit),
            is_configured: world.is_registered() || world.is_configured(),
            is_connected: is_connected(world, settings),
        };
        Self {
            world,
            findings,
            stalled,
            state: state(facts),
        }
    }

    /// What keeps the Cluster from being ready: what is wrong, else what is not known.
    pub(crate) fn unready(&self) -> Option<&Finding> {
        if self.state == ClusterState::Online {
            return None;
        }
        let is = |status| move |it: &&Finding| it.status == status;
        let mut wrong = self.findings.iter().filter(is(ConditionStatus::False));
        let first = wrong.next();
        // A template that waits is no reason of its own: what it waits for says more.
        let wrong = match first {
            Some(it) if it.reason == reason::PENDING => {
                let cause = wrong.find(|it| it.type_ == condition::INFRASTRUCTURE_READY);
                cause.or(first)
            }
            first => first,
        };
        wrong.or_else(|| self.findings.iter().find(is(ConditionStatus::Unknown)))
    }
}

fn stalled(world: &World, findings: &[Finding]) -> Option<Trouble> {
    if world.is_registered() {
        return None;
    }
    let is_final = |it: &&Finding| {
        let is_reported = it.type_ == condition::INFRASTRUCTURE_READY
            && REPORTED.contains(&it.reason)
            && is_only_reported(world);
        it.status == ConditionStatus::False && (FINAL.contains(&it.reason) || is_reported)
    };
    let found = findings.iter().find(is_final)?;
    Some(Trouble {
        reason: found.reason,
        message: found.message.clone(),
    })
}

/// Whether the machines are not repaired, by the drift policy.
fn is_only_reported(world: &World) -> bool {
    !world.is_repaired() && world.durable.id.is_some() && world.known.trouble.is_none()
}

/// Whether something failed that is tried again.
fn is_failing(world: &World, now: Timestamp) -> bool {
    if world.is_registered() {
        return false;
    }
    let is_idle = world.durable.id.is_some() && world.durable.under_way().is_none();
    let has_failed = matches!(
        world.im_state(),
        Some(ImState::Failed | ImState::Unconfigured | ImState::Unknown | ImState::Deleting)
    );
    (world.known.trouble.is_some() && !is_idle)
        || world.known.refusal.is_some()
        || world.is_overdue(now)
        || (world.durable.id.is_some() && has_failed)
}

/// Whether a create request was recorded, and the machines were never configured.
fn is_created(world: &World) -> bool {
    let under_way = world.durable.under_way();
    under_way.is_some_and(|it| {
        it.kind == OperationKind::Create
            && (world.durable.id.is_some() || it.last_call_at.is_some())
    })
}

fn is_changed(world: &World, edit: &Edit) -> bool {
    let is_moving = matches!(
        world.im_state(),
        Some(ImState::Pending | ImState::Running | ImState::Stopped | ImState::Off)
    );
    let kind = world.durable.under_way().map(|it| it.kind);
    let is_repair = kind.is_some_and(|it| it != OperationKind::Create);
    world.durable.id.is_some() && (is_repair || is_moving || matches!(edit, Edit::Send { .. }))
}

fn is_connected(world: &World, settings: &Settings) -> bool {
    let has_kubeconfig = world.is_registered() || world.has_kubeconfig();
    settings.probe && has_kubeconfig && world.known.probe.answers
}

// The status of a Cluster, computed from the world.

/// Returns the status. Times stay as they are where nothing changes.
pub(crate) fn status(view: &View<'_>, edit: &Edit, now: Timestamp) -> ClusterStatus {
    let world = view.world;
    let seen = world.status();
    let generation = world.cluster.metadata.generation;
    let findings = view.findings.iter();
    let mut conditions: Vec<NewCondition> = findings.map(Finding::condition).collect();
    conditions.push(ready(view));
    if !world.is_registered() {
        conditions.push(stalled_condition(view));
    }
    let mut durable = world.durable.clone();
    if *edit == Edit::Local
        && let (Some(wanted), Some(_)) = (&world.wanted, &durable.id)
    {
        durable.applied = Some(wanted.template.clone());
    }
    ClusterStatus {
        state: Some(view.state),
        observed_generation: generation,
        conditions: Some(merged(
            seen.and_then(|status| status.conditions.as_ref()),
            conditions,
            generation,
            now,
        )),
        ..durable.status()
    }
}

fn ready(view: &View<'_>) -> NewCondition {
    let type_ = condition::READY;
    // First: what else is wrong is not looked at again until somebody ends the pause.
    if view.world.cluster.spec.paused {
        let message = "nothing is done, since spec.paused is true";
        return NewCondition::new(type_, ConditionStatus::False, reason::PAUSED, message);
    }
    if let Some(wrong) = view.unready() {
        let (reason, message) = (wrong.reason, wrong.message.clone());
        return NewCondition::new(type_, ConditionStatus::False, reason, message);
    }
    let message = "the API server of the cluster answers";
    NewCondition::new(type_, ConditionStatus::True, reason::READY, message)
}

fn stalled_condition(view: &View<'_>) -> NewCondition {
    let type_ = condition::STALLED;
    match &view.stalled {
        Some(it) => NewCondition::new(type_, ConditionStatus::True, it.reason, it.message.clone()),
        None => {
            let message = "nothing needs to be changed";
            NewCondition::new(type_, ConditionStatus::False, reason::NOT_STALLED, message)
        }
    }
}

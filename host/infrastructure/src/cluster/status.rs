//! The status of a Cluster, computed from the world.

use jiff::Timestamp;
use podloom_api::ClusterStatus;
use podloom_api::names::infrastructure::{condition, reason};
use podloom_engine::conditions::{ConditionStatus, NewCondition, conditions as merged};

use super::edit::Edit;
use super::view::View;

/// Returns the status. Times stay as they are where nothing changes.
pub(crate) fn status(view: &View<'_>, edit: &Edit, now: Timestamp) -> ClusterStatus {
    let world = view.world;
    let seen = world.status();
    let generation = world.cluster.metadata.generation;
    let mut conditions: Vec<NewCondition> = view
        .findings
        .iter()
        .map(super::conditions::Finding::condition)
        .collect();
    conditions.push(ready(view));
    if !world.is_registered() {
        conditions.push(stalled(view));
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

fn stalled(view: &View<'_>) -> NewCondition {
    let type_ = condition::STALLED;
    match &view.stalled {
        Some(it) => NewCondition::new(type_, ConditionStatus::True, it.reason, it.message.clone()),
        None => {
            let message = "nothing needs to be changed";
            NewCondition::new(type_, ConditionStatus::False, reason::NOT_STALLED, message)
        }
    }
}

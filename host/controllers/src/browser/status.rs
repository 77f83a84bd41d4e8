//! The status of a Browser, computed from the world.

use jiff::Timestamp;
use podloom_api::{BrowserStatus, ContainerStatus, Phase, names};

use super::failure;
use super::judge::{End, Obstacle, Outcome, Verdict};
use super::pod::SeenPod;
use super::world::World;
use crate::engine::conditions::{ConditionStatus, NewCondition, conditions};

/// Returns the status that a verdict amounts to; times stay as they are where nothing changes.
pub(crate) fn status(world: &World, verdict: &Verdict, now: Timestamp) -> BrowserStatus {
    let pod = world.own_pod();
    let pod_status = pod.map(|pod| &pod.status);
    let end = match verdict {
        Verdict::Ended(end) => Some(end),
        _ => None,
    };
    let mut findings = vec![
        config_resolved(world, verdict),
        pod_created(world, verdict),
        ready(world, verdict),
    ];
    findings.extend(pod.and_then(disruption_target));
    let seen = world.status();
    let generation = world.browser.metadata.generation;
    BrowserStatus {
        pod_ip: pod_status.and_then(|status| status.pod_ip.clone()),
        pod_uid: pod
            .and_then(|pod| pod.metadata.uid.clone())
            .or_else(|| world.pod_uid().map(str::to_owned)),
        phase: Some(phase(pod, verdict)),
        message: end.map(|end| end.cause.message.clone()),
        reason: end.map(|end| end.cause.reason.clone()),
        start_time: pod_status.and_then(|status| status.start_time.clone()),
        container_statuses: pod.and_then(container_statuses),
        conditions: Some(conditions(
            seen.and_then(|status| status.conditions.as_ref()),
            findings,
            generation,
            now,
        )),
        observed_generation: generation,
        mutations: pod.and_then(|pod| pod.mutations.clone()),
    }
}

fn phase(pod: Option<&SeenPod>, verdict: &Verdict) -> Phase {
    match verdict {
        Verdict::Ended(End {
            outcome: Outcome::Failed,
            ..
        }) => Phase::Failed,
        Verdict::Ended(End {
            outcome: Outcome::Succeeded,
            ..
        }) => Phase::Succeeded,
        Verdict::Runs if is_silent(pod) => Phase::Unknown,
        Verdict::Runs => Phase::Running,
        _ => Phase::Pending,
    }
}

/// Whether the pod's node does not answer.
fn is_silent(pod: Option<&SeenPod>) -> bool {
    pod.and_then(|pod| pod.status.phase.as_deref()) == Some("Unknown")
}

fn config_resolved(world: &World, verdict: &Verdict) -> NewCondition {
    let (status, reason, message) = match verdict {
        Verdict::Waits {
            obstacle: Obstacle::Config(message),
            ..
        } => (
            ConditionStatus::False,
            names::reason::BROWSER_POD_SPEC,
            message.clone(),
        ),
        Verdict::Ended(end) if end.event == names::event::CONFIG_NOT_FOUND => (
            ConditionStatus::False,
            names::reason::BROWSER_POD_SPEC,
            end.cause.message.clone(),
        ),
        // Nobody has looked for one.
        _ if world.learned.metadata_refused.is_some()
            && !world.has_finalizer()
            && world.own_pod().is_none() =>
        {
            let message = "not looked for while the finalizer cannot be set".to_owned();
            (
                ConditionStatus::Unknown,
                names::reason::METADATA_REFUSED,
                message,
            )
        }
        _ => {
            let spec = &world.browser.spec;
            let message = format!(
                "a BrowserConfig defines {} {}",
                spec.browser_name, spec.browser_version
            );
            (ConditionStatus::True, names::reason::RESOLVED, message)
        }
    };
    finding(names::condition::CONFIG_RESOLVED, status, reason, message)
}

fn pod_created(world: &World, verdict: &Verdict) -> NewCondition {
    let type_ = names::condition::POD_CREATED;
    if world.own_pod().is_some() || world.had_pod() {
        let message = format!("pod {}", world.name());
        return finding(
            type_,
            ConditionStatus::True,
            names::reason::POD_CREATED,
            message,
        );
    }
    let (reason, message) = match verdict {
        Verdict::Waits { obstacle, .. } => match obstacle {
            Obstacle::Config(message) => (names::reason::BROWSER_POD_SPEC, message.as_str()),
            Obstacle::Chain(message) => (names::reason::MUTATION_FAILED, message.as_str()),
            Obstacle::Admission(message) => (names::reason::POD_FORBIDDEN, message.as_str()),
            Obstacle::Metadata(message) => (names::reason::METADATA_REFUSED, message.as_str()),
        },
        Verdict::Ended(end) => (end.cause.reason.as_str(), end.cause.message.as_str()),
        _ => (names::reason::POD_MISSING, ""),
    };
    finding(type_, ConditionStatus::False, reason, message.to_owned())
}

/// Unknown until the session either runs or is over, and while its pod is not ready.
fn ready(world: &World, verdict: &Verdict) -> NewCondition {
    let type_ = names::condition::READY;
    let pod = world.own_pod();
    match verdict {
        Verdict::Runs => match pod.and_then(failure::unready) {
            Some((reason, message)) => finding(type_, ConditionStatus::Unknown, reason, message),
            None => finding(
                type_,
                ConditionStatus::True,
                names::reason::RUNNING,
                "the pod runs",
            ),
        },
        Verdict::Ended(end) => finding(
            type_,
            ConditionStatus::False,
            &end.cause.reason,
            &end.cause.message,
        ),
        _ => match pod.and_then(failure::unschedulable) {
            Some(message) => finding(
                type_,
                ConditionStatus::Unknown,
                names::reason::UNSCHEDULABLE,
                message,
            ),
            None => finding(
                type_,
                ConditionStatus::Unknown,
                names::reason::POD_PENDING,
                "the pod does not run yet",
            ),
        },
    }
}

/// What the pod says of being driven out, as it says it.
fn disruption_target(pod: &SeenPod) -> Option<NewCondition> {
    let target = failure::disruption(pod)?;
    let status = match target.status.as_str() {
        "True" => ConditionStatus::True,
        "False" => ConditionStatus::False,
        _ => ConditionStatus::Unknown,
    };
    let type_ = names::condition::DISRUPTION_TARGET;
    let reason = target.reason.as_deref().unwrap_or(type_);
    let message = target.message.as_deref().unwrap_or_default();
    Some(finding(type_, status, reason, message))
}

fn finding(
    type_: &'static str,
    status: ConditionStatus,
    reason: &str,
    message: impl Into<String>,
) -> NewCondition {
    NewCondition {
        type_,
        status,
        reason: condition_reason(reason),
        message: message.into(),
    }
}

/// Conditions take CamelCase words alone, and a pod's reason may be anything.
fn condition_reason(reason: &str) -> String {
    let word: String = reason
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '_')
        .collect();
    match word.chars().next() {
        Some(first) if first.is_ascii_alphabetic() => word,
        _ => names::event::POD_FAILED.to_owned(),
    }
}

fn container_statuses(pod: &SeenPod) -> Option<Vec<ContainerStatus>> {
    let statuses = pod.status.container_statuses.as_ref()?;
    let published = statuses.iter().map(|status| ContainerStatus {
        name: status.name.clone(),
        state: status.state.clone(),
        image: Some(status.image.clone()),
        restart_count: status.restart_count,
        ports: pod
            .spec
            .containers
            .iter()
            .find(|container| container.name == status.name)
            .and_then(|container| container.ports.clone()),
    });
    Some(published.collect())
}

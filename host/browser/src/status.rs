//! The status of a Browser, computed from the world.

use jiff::Timestamp;
use podloom_api::{BrowserStatus, ContainerStatus, Phase, names};
use podloom_engine::conditions::ConditionStatus::{self, False, True, Unknown};
use podloom_engine::conditions::{NewCondition, conditions};

use super::cause;
use super::cause::{Cause, condition_reason};
use super::judge::Verdict;
use super::pod::SeenPod;
use super::world::World;

/// Returns the status for a verdict. Times stay as they are where nothing changes.
pub(crate) fn status(world: &World, verdict: &Verdict, now: Timestamp) -> BrowserStatus {
    let pod = world.own_pod();
    let pod_status = pod.map(|pod| &pod.status);
    let uid = pod.and_then(|pod| pod.metadata.uid.as_deref());
    let end = match verdict {
        Verdict::Ended(cause) => Some(cause),
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
        pod_uid: uid.or(world.pod_uid()).map(str::to_owned),
        pod_name: Some(world.pod_name().to_owned()).filter(|name| name != world.name()),
        phase: Some(phase(pod, verdict)),
        message: end.map(ToString::to_string),
        reason: end.map(|cause| cause.reason().to_owned()),
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
        Verdict::Ended(cause) => cause.phase(),
        Verdict::Runs if is_silent(pod) => Phase::Unknown,
        Verdict::Runs => Phase::Running,
        _ => Phase::Pending,
    }
}

/// Whether the pod's node does not answer.
fn is_silent(pod: Option<&SeenPod>) -> bool {
    pod.and_then(|pod| pod.status.phase) == Some(Phase::Unknown)
}

fn config_resolved(world: &World, verdict: &Verdict) -> NewCondition {
    let type_ = names::condition::CONFIG_RESOLVED;
    match verdict.cause() {
        Some(cause @ (Cause::Unconfigured(_) | Cause::InvalidConfig(_))) => caused(type_, cause),
        // None was looked up.
        _ if world.learned.metadata_rejected.is_some()
            && !world.has_finalizer()
            && world.own_pod().is_none() =>
        {
            let message = "not looked up while the finalizer cannot be set";
            finding(type_, Unknown, names::reason::METADATA_REFUSED, message)
        }
        _ => {
            let spec = &world.browser.spec;
            let (browser, version) = (&spec.browser_name, &spec.browser_version);
            let message = format!("a BrowserConfig defines {browser} {version}");
            finding(type_, True, names::reason::RESOLVED, message)
        }
    }
}

fn pod_created(world: &World, verdict: &Verdict) -> NewCondition {
    let type_ = names::condition::POD_CREATED;
    if world.own_pod().is_some() || world.had_pod() {
        let name = world.pod_name();
        // Which pod it is never changes, and nor does why.
        let said = world.condition(type_, "True");
        let message = match (said, &world.learned.cold) {
            (Some(said), _) => said.message.clone(),
            (None, Some(why)) => format!("pod {name}, made cold: {why}"),
            (None, None) if name != world.name() => format!("warm pod {name}"),
            (None, None) => format!("pod {name}"),
        };
        return finding(type_, True, names::reason::POD_CREATED, message);
    }
    match verdict.cause() {
        Some(cause) => caused(type_, cause),
        None => finding(type_, False, names::reason::POD_MISSING, ""),
    }
}

/// Unknown until the session either runs or is over, and while its pod is not ready.
fn ready(world: &World, verdict: &Verdict) -> NewCondition {
    let type_ = names::condition::READY;
    let pod = world.own_pod();
    match verdict {
        Verdict::Runs => match pod.and_then(cause::unready) {
            Some(unready) => finding(type_, Unknown, unready.reason, unready.message),
            None => {
                let small = pod.and_then(cause::not_resized);
                let message = small.map_or_else(
                    || "the pod is running".to_owned(),
                    |why| format!("the pod is running, but is not resized: {why}"),
                );
                finding(type_, True, names::reason::RUNNING, message)
            }
        },
        Verdict::Ended(cause) => caused(type_, cause),
        _ => match pod.and_then(cause::unschedulable) {
            Some(message) => finding(type_, Unknown, names::reason::UNSCHEDULABLE, message),
            None => {
                let message = pod.and_then(cause::lacks_config);
                let message = message.unwrap_or_else(|| "the pod is not running yet".to_owned());
                finding(type_, Unknown, names::reason::POD_PENDING, message)
            }
        },
    }
}

/// The pod's own condition DisruptionTarget, as it is.
fn disruption_target(pod: &SeenPod) -> Option<NewCondition> {
    let target = cause::disruption(pod)?;
    let status = match target.status.as_str() {
        "True" => True,
        "False" => False,
        _ => Unknown,
    };
    let type_ = names::condition::DISRUPTION_TARGET;
    let reason = target.reason.as_deref().unwrap_or(type_);
    let message = target.message.as_deref().unwrap_or_default();
    Some(finding(type_, status, reason, message))
}

/// A condition that is False for a cause.
fn caused(type_: &'static str, cause: &Cause) -> NewCondition {
    finding(type_, False, cause.reason(), cause.to_string())
}

fn finding(
    type_: &'static str,
    status: ConditionStatus,
    reason: &str,
    message: impl Into<String>,
) -> NewCondition {
    NewCondition::new(type_, status, &condition_reason(reason), message)
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

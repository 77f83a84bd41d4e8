//! What a pod's status says about how its session ends, in the words that clients look for.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerStateTerminated, PodCondition};
use podloom_api::{ContainerState, names};

use super::pod::{SeenContainerStatus, SeenPod};

/// Reasons for waiting that every start goes through.
const STARTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];
/// Containers whose end is the session's end.
const CRITICAL: [&str; 2] = [names::container::BROWSER, names::container::SELENIFEROUS];
/// What is said of a pod whose node does not answer.
const SILENT: (&str, &str) = (names::reason::NODE_LOST, "the pod's node does not answer");

/// Why a session ended, as its status tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// Returns what keeps a pending pod from ever starting: a container that ended in an error, or waits for more than its start.
pub(crate) fn of_pending(pod: &SeenPod) -> Option<Cause> {
    let statuses = all_statuses(pod);
    let restarts = restarting_init_containers(pod);
    let terminated = statuses
        .iter()
        .filter(|container| !restarts.contains(&container.name.as_str()))
        .find_map(|container| {
            let ended = terminated(container).filter(|ended| ended.exit_code != 0)?;
            Some(cause_of_exit("pod container", container, ended))
        });
    terminated.or_else(|| {
        statuses.iter().find_map(|container| {
            let (reason, message) = waiting(container)?;
            if STARTING.contains(&reason) {
                return None;
            }
            let start = format!("pod container {} failed: {reason}", container.name);
            Some(Cause {
                reason: reason.to_owned(),
                message: match message {
                    Some(message) => format!("{start} - {message}"),
                    None => start,
                },
            })
        })
    })
}

/// Returns what a pending pod waits for, after it has waited too long.
pub(crate) fn of_timeout(pod: Option<&SeenPod>, timeout: Duration) -> Cause {
    let mut message = format!(
        "pod creation timeout exceeded after {}",
        go_duration(timeout)
    );
    let statuses = pod.map(all_statuses).unwrap_or_default();
    let waits = statuses
        .iter()
        .find_map(|container| Some((container.name.as_str(), waiting(container)?.0)));
    if let Some((name, reason)) = waits {
        message = format!("{message}, container {name}: {reason}");
    } else if let Some(sentence) = pod.and_then(unschedulable) {
        message = format!("{message}, {sentence}");
    }
    Cause {
        reason: names::reason::CREATION_TIMEOUT.to_owned(),
        message,
    }
}

/// Returns why a pod has failed: its own reason, else that of its first container that did.
pub(crate) fn of_failed(pod: &SeenPod) -> Cause {
    let own = pod.status.reason.clone();
    let own_message = pod.status.message.clone();
    let failed = all_statuses(pod).into_iter().find_map(|container| {
        let ended = terminated(container).filter(|ended| ended.exit_code != 0)?;
        Some((container, ended))
    });
    let of_container = failed.map(|(container, ended)| {
        let exited = || {
            format!(
                "container {} exited with code {}",
                container.name, ended.exit_code
            )
        };
        (
            exit_reason(ended),
            ended.message.clone().unwrap_or_else(exited),
        )
    });
    let (reason, message) = match (own, of_container) {
        (Some(reason), container) => {
            let message = own_message.or(container.map(|(_, message)| message));
            (reason, message)
        }
        (None, Some((reason, message))) => (reason.to_owned(), own_message.or(Some(message))),
        (None, None) => ("Unknown".to_owned(), own_message),
    };
    let message = message.unwrap_or_else(|| "the pod does not say why".to_owned());
    Cause {
        message: format!("pod has failed with reason: {reason} - {message}"),
        reason,
    }
}

/// How a running session ended: well, or why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Well(Cause),
    Badly(Cause),
}

/// Returns how a container ended without which a running session is over.
pub(crate) fn of_running(pod: &SeenPod) -> Option<Exit> {
    let statuses = pod.status.container_statuses.as_deref()?;
    let mut ended = CRITICAL.iter().filter_map(|name| {
        let container = statuses.iter().find(|container| container.name == *name)?;
        Some((container, terminated(container)?))
    });
    let first = ended.next()?;
    // If several ended, a bad end tells more than a good one.
    let (container, state) = std::iter::once(first)
        .chain(ended)
        .find(|(_, state)| state.exit_code != 0)
        .unwrap_or(first);
    let cause = cause_of_exit("container", container, state);
    Some(match state.exit_code {
        0 => Exit::Well(cause),
        _ => Exit::Badly(cause),
    })
}

/// Returns the scheduler's sentence about a pod that no node takes.
pub(crate) fn unschedulable(pod: &SeenPod) -> Option<&str> {
    let obstacle = condition(pod, "PodScheduled").filter(|obstacle| obstacle.status == "False")?;
    obstacle.message.as_deref()
}

/// Returns why a running pod is not ready: a reason and a sentence.
pub(crate) fn unready(pod: &SeenPod) -> Option<(&str, &str)> {
    if pod.status.phase.as_deref() == Some("Unknown") {
        return Some(SILENT);
    }
    let ready = condition(pod, "Ready").filter(|ready| ready.status != "True")?;
    // A kubelet always says why. The controller of nodes, which speaks for one that does not answer, changes the status alone.
    let Some(reason) = ready.reason.as_deref().filter(|reason| !reason.is_empty()) else {
        return Some(SILENT);
    };
    let message = ready.message.as_deref().unwrap_or("the pod is not ready");
    Some((reason, message))
}

/// Returns the pod's condition that says whether something drives it out: an eviction, a preemption, a node that is lost.
pub(crate) fn disruption(pod: &SeenPod) -> Option<&PodCondition> {
    condition(pod, names::condition::DISRUPTION_TARGET)
}

/// Returns what drives the pod out.
pub(crate) fn of_disruption(pod: &SeenPod) -> Option<Cause> {
    let target = disruption(pod).filter(|target| target.status == "True")?;
    let reason = target.reason.as_deref().filter(|reason| !reason.is_empty());
    Some(disrupted(
        reason.unwrap_or(names::condition::DISRUPTION_TARGET),
        target.message.as_deref().unwrap_or_default(),
    ))
}

/// The cause of an end by a disruption, from its reason and its sentence.
pub(crate) fn disrupted(reason: &str, message: &str) -> Cause {
    let start = format!("pod disrupted: {reason}");
    Cause {
        reason: reason.to_owned(),
        message: match message {
            "" => start,
            message => format!("{start} - {message}"),
        },
    }
}

fn condition<'a>(pod: &'a SeenPod, type_: &str) -> Option<&'a PodCondition> {
    let mut conditions = pod.status.conditions.iter();
    conditions.find(|condition| condition.type_ == type_)
}

fn cause_of_exit(
    subject: &str,
    container: &SeenContainerStatus,
    ended: &ContainerStateTerminated,
) -> Cause {
    let reason = exit_reason(ended);
    Cause {
        reason: reason.to_owned(),
        message: format!(
            "{subject} {} terminated: {reason} (exit code {})",
            container.name, ended.exit_code
        ),
    }
}

/// Runtimes may leave the reason out.
fn exit_reason(ended: &ContainerStateTerminated) -> &str {
    let fallback = if ended.exit_code == 0 {
        "Completed"
    } else {
        "Error"
    };
    ended
        .reason
        .as_deref()
        .filter(|reason| !reason.is_empty())
        .unwrap_or(fallback)
}

/// Init containers first, as they start first.
fn all_statuses(pod: &SeenPod) -> Vec<&SeenContainerStatus> {
    let started = pod.status.container_statuses.iter().flatten();
    pod.status
        .init_container_statuses
        .iter()
        .chain(started)
        .collect()
}

/// Sidecars among the init containers: the kubelet starts them again.
fn restarting_init_containers(pod: &SeenPod) -> Vec<&str> {
    pod.spec
        .init_containers
        .iter()
        .filter(|container| container.restart_policy.as_deref() == Some("Always"))
        .map(|container| container.name.as_str())
        .collect()
}

fn terminated(container: &SeenContainerStatus) -> Option<&ContainerStateTerminated> {
    match container.state.as_ref()? {
        ContainerState::Terminated(ended) => Some(ended),
        _ => None,
    }
}

fn waiting(container: &SeenContainerStatus) -> Option<(&str, Option<&str>)> {
    match container.state.as_ref()? {
        ContainerState::Waiting(waiting) => {
            Some((waiting.reason.as_deref()?, waiting.message.as_deref()))
        }
        _ => None,
    }
}

/// A duration as Go prints it, since clients compare the text: `5m0s`.
fn go_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0) => format!("{}ms", duration.as_millis()),
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}s"),
        (hours, minutes, seconds) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests;

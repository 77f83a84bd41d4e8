//! Reads from a pod's status why its session ends, or why it does not run well.

use k8s_openapi::api::core::v1::{ContainerStateTerminated, PodCondition};
use podloom_api::{ContainerState, Phase, names};
use podloom_engine::events::Notice;

use super::cause::{Cause, Disruption, Exit};
use super::pod::{SeenContainerStatus, SeenPod};

/// The reasons for which a container waits in every start.
const STARTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];
/// A container waits for this reason while a Secret or ConfigMap is missing, and the kubelet starts it once they exist. Other
/// mistakes, such as a root image under `runAsNonRoot`, have the same reason, so they fail after the grace too.
const LACKS_CONFIG: &str = "CreateContainerConfigError";
/// The session is over when one of these containers exits.
const CRITICAL: [&str; 2] = [names::container::BROWSER, names::container::SELENIFEROUS];

/// Why a pod that was running is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unready<'a> {
    /// Its node does not answer.
    NodeLost,
    /// Its kubelet gives a reason and a sentence.
    Pod { reason: &'a str, message: &'a str },
}

impl<'a> Unready<'a> {
    /// Returns the reason in conditions.
    pub(crate) fn reason(self) -> &'a str {
        match self {
            Self::NodeLost => names::reason::NODE_LOST,
            Self::Pod { reason, .. } => reason,
        }
    }

    /// Returns the sentence for people.
    pub(crate) fn message(self) -> &'a str {
        match self {
            Self::NodeLost => "the pod's node does not answer",
            Self::Pod { message, .. } => message,
        }
    }

    /// Returns the Event that warns of it.
    pub(crate) fn notice(self) -> Notice {
        let reason = match self {
            Self::NodeLost => names::reason::NODE_LOST,
            Self::Pod { .. } => names::event::POD_NOT_READY,
        };
        Notice::warning(reason, self.message())
    }
}

/// Returns why a pending pod will never run: a container failed, or it waits for more than its start.
/// With `config_may_come`, a container may still wait for its Secrets and ConfigMaps.
pub(crate) fn of_pending(pod: &SeenPod, config_may_come: bool) -> Option<Cause> {
    let statuses = all_statuses(pod);
    let restarts = restarting_init_containers(pod);
    let terminated = statuses
        .iter()
        .filter(|container| !restarts.contains(&container.name.as_str()))
        .find_map(|container| {
            let ended = terminated(container).filter(|ended| ended.exit_code != 0)?;
            Some(Cause::StartFailed(exit(container, ended)))
        });
    terminated.or_else(|| {
        statuses.iter().find_map(|container| {
            let (reason, message) = waiting(container)?;
            if STARTING.contains(&reason) || config_may_come && reason == LACKS_CONFIG {
                return None;
            }
            Some(Cause::CannotStart {
                container: container.name.clone(),
                reason: reason.to_owned(),
                message: message.map(str::to_owned),
            })
        })
    })
}

/// Returns which Secret or ConfigMap a container of a pending pod lacks, as the kubelet says it.
pub(crate) fn lacks_config(pod: &SeenPod) -> Option<String> {
    if !pod.is_pending() {
        return None;
    }
    all_statuses(pod).into_iter().find_map(|container| {
        let (reason, message) = waiting(container)?;
        let what = message.unwrap_or("its configuration is not complete");
        (reason == LACKS_CONFIG).then(|| format!("container {}: {what}", container.name))
    })
}

/// Returns what a pending pod waits for, if its status says so.
pub(crate) fn waits_for(pod: &SeenPod) -> Option<String> {
    let waits = all_statuses(pod).into_iter().find_map(|container| {
        let (reason, _) = waiting(container)?;
        Some(format!("container {}: {reason}", container.name))
    });
    waits.or_else(|| unschedulable(pod).map(str::to_owned))
}

/// Returns why a pod has failed: its own reason, else that of its first container that failed.
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
    let message = message.unwrap_or_else(|| "the pod's status gives no reason".to_owned());
    Cause::PodFailed { reason, message }
}

/// Returns how a container exited that the session cannot go on without.
pub(crate) fn of_running(pod: &SeenPod) -> Option<Cause> {
    let statuses = pod.status.container_statuses.as_deref()?;
    let mut ended = CRITICAL.iter().filter_map(|name| {
        let container = statuses.iter().find(|container| container.name == *name)?;
        Some((container, terminated(container)?))
    });
    let first = ended.next()?;
    // If several exited, one that failed explains more than one that completed.
    let (container, state) = std::iter::once(first)
        .chain(ended)
        .find(|(_, state)| state.exit_code != 0)
        .unwrap_or(first);
    Some(Cause::Exited(exit(container, state)))
}

/// Returns the scheduler's sentence about a pod that fits no node.
pub(crate) fn unschedulable(pod: &SeenPod) -> Option<&str> {
    let obstacle = condition(pod, "PodScheduled").filter(|obstacle| obstacle.status == "False")?;
    obstacle.message.as_deref()
}

/// Returns why a running pod is not ready, if it is not.
pub(crate) fn unready(pod: &SeenPod) -> Option<Unready<'_>> {
    if pod.status.phase == Some(Phase::Unknown) {
        return Some(Unready::NodeLost);
    }
    let ready = condition(pod, "Ready").filter(|ready| ready.status != "True")?;
    // A kubelet always gives a reason. The node lifecycle controller, which acts for a lost node, changes the status alone.
    let Some(reason) = ready.reason.as_deref().filter(|reason| !reason.is_empty()) else {
        return Some(Unready::NodeLost);
    };
    let message = ready.message.as_deref().unwrap_or("the pod is not ready");
    Some(Unready::Pod { reason, message })
}

/// Returns the pod's condition that reports an eviction, a preemption or a lost node.
pub(crate) fn disruption(pod: &SeenPod) -> Option<&PodCondition> {
    condition(pod, names::condition::DISRUPTION_TARGET)
}

/// Returns why the pod is evicted or preempted, if it is.
pub(crate) fn of_disruption(pod: &SeenPod) -> Option<Disruption> {
    let target = disruption(pod).filter(|target| target.status == "True")?;
    let reason = target.reason.as_deref().filter(|reason| !reason.is_empty());
    Some(Disruption {
        reason: reason
            .unwrap_or(names::condition::DISRUPTION_TARGET)
            .to_owned(),
        message: target.message.clone().unwrap_or_default(),
    })
}

fn condition<'a>(pod: &'a SeenPod, type_: &str) -> Option<&'a PodCondition> {
    let mut conditions = pod.status.conditions.iter();
    conditions.find(|condition| condition.type_ == type_)
}

fn exit(container: &SeenContainerStatus, ended: &ContainerStateTerminated) -> Exit {
    Exit {
        container: container.name.clone(),
        reason: exit_reason(ended).to_owned(),
        code: ended.exit_code,
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

/// Sidecars among the init containers: the kubelet restarts them.
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

#[cfg(test)]
mod tests;

//! Why a session ended, or has to wait for its pod: one enum, and everything that clients read of it.
//!
//! The reason and the message of a status, the reason of a condition and the Event of a cause are put together here and nowhere else.
//! Sentences about configurations, options and plugins come from where they are found.

use std::fmt;
use std::fmt::Display;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, PodCondition};
use podloom_api::{ContainerState, Phase, names};
use podloom_engine::events::Notice;
use podloom_mutation::PodRejection;

use super::pod::{SeenContainerStatus, SeenPod};
use super::render::{RenderError, ResolveError};

/// Why a session ended, or has no pod for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The pod succeeded.
    Completed,
    /// A container that the session needs exited while the pod was running: with code 0 the session has succeeded.
    Exited(Exit),
    /// No BrowserConfig defines what the Browser asks for.
    Unconfigured(String),
    /// A BrowserConfig defines it, but no pod can be made from it.
    InvalidConfig(String),
    /// The Browser asks for more than is allowed, or its options cannot be read.
    InvalidOptions(String),
    /// The API server rejected the pod as invalid, or none could be made.
    InvalidPod(String),
    /// A plugin rejected the pod.
    Denied(String),
    /// A plugin failed, or there is no chain; the next attempt may succeed.
    PluginFailed(String),
    /// The API server does not admit the pod: quota, an admission policy, a namespace that is being deleted. That may change.
    PodForbidden(String),
    /// The API server does not let the operator set its finalizer and labels. That may change.
    MetadataRefused(String),
    /// A pod with the Browser's name belongs to another owner.
    NameTaken {
        /// The name.
        pod: String,
    },
    /// The pod was not created, or did not start, in time.
    CreationTimeout {
        /// How long it was waited for.
        timeout: Duration,
        /// What was missing, if that is known.
        missing: Option<String>,
    },
    /// A container failed before the pod was running.
    StartFailed(Exit),
    /// A container cannot start.
    CannotStart {
        /// The container's name.
        container: String,
        /// What the kubelet calls it, such as `ImagePullBackOff`.
        reason: String,
        /// The kubelet's sentence about it.
        message: Option<String>,
    },
    /// The pod failed.
    PodFailed {
        /// The pod's own reason, or that of a container that failed.
        reason: String,
        /// A sentence about it, from the pod or from that container.
        message: String,
    },
    /// The pod was evicted or preempted, or its node was lost or drained.
    Disrupted(Disruption),
    /// The pod no longer exists.
    PodLost,
}

/// How a container exited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    /// The container's name.
    pub(crate) container: String,
    /// One word for it, such as `OOMKilled`.
    pub(crate) reason: String,
    pub(crate) code: i32,
}

/// Why a pod was evicted or preempted, from its condition DisruptionTarget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Disruption {
    pub(crate) reason: String,
    /// Empty if there is no sentence about it.
    pub(crate) message: String,
}

impl Cause {
    /// Returns the phase of a session that ended for this cause.
    pub(crate) fn phase(&self) -> Phase {
        match self {
            Self::Completed | Self::Exited(Exit { code: 0, .. }) => Phase::Succeeded,
            _ => Phase::Failed,
        }
    }

    /// Returns the reason in the status. That of a pod or a container may be any word.
    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::Exited(exit) | Self::StartFailed(exit) => &exit.reason,
            Self::CannotStart { reason, .. } | Self::PodFailed { reason, .. } => reason,
            Self::Disrupted(disruption) => &disruption.reason,
            Self::Unconfigured(_) | Self::InvalidConfig(_) | Self::InvalidPod(_) => {
                names::reason::BROWSER_POD_SPEC
            }
            _ => self.event(),
        }
    }

    /// Returns the reason of the Event; metrics count failures by it, since it comes from a closed set.
    pub(crate) fn event(&self) -> &'static str {
        match self {
            Self::Completed | Self::Exited(Exit { code: 0, .. }) => names::reason::COMPLETED,
            Self::Unconfigured(_) => names::event::CONFIG_NOT_FOUND,
            Self::InvalidConfig(_) => names::event::CONFIG_INVALID,
            Self::InvalidOptions(_) => names::reason::INVALID_OPTIONS,
            Self::Denied(_) => names::reason::MUTATION_DENIED,
            Self::PluginFailed(_) => names::reason::MUTATION_FAILED,
            Self::PodForbidden(_) => names::reason::POD_FORBIDDEN,
            Self::MetadataRefused(_) => names::reason::METADATA_REFUSED,
            Self::NameTaken { .. } => names::reason::POD_NAME_CONFLICT,
            Self::CreationTimeout { .. } => names::reason::CREATION_TIMEOUT,
            Self::Disrupted(_) => names::event::POD_DISRUPTED,
            Self::PodLost => names::reason::POD_LOST,
            Self::Exited(_)
            | Self::InvalidPod(_)
            | Self::StartFailed(_)
            | Self::CannotStart { .. }
            | Self::PodFailed { .. } => names::event::POD_FAILED,
        }
    }

    /// Returns the Event. Its note begins with the reason of the status, which the Event's own reason may only summarize.
    pub(crate) fn notice(&self) -> Notice {
        let note = format!("{}: {self}", self.reason());
        match self.phase() {
            Phase::Succeeded => Notice::normal(self.event(), note),
            _ => Notice::warning(self.event(), note),
        }
    }
}

impl From<&ResolveError> for Cause {
    fn from(error: &ResolveError) -> Self {
        let sentence = error.to_string();
        match error {
            ResolveError::NotFound(_) => Self::Unconfigured(sentence),
            ResolveError::Invalid { .. } => Self::InvalidConfig(sentence),
        }
    }
}

impl From<&RenderError> for Cause {
    fn from(error: &RenderError) -> Self {
        let sentence = error.to_string();
        match error {
            RenderError::Options(_) => Self::InvalidOptions(sentence),
            RenderError::Unnamed => Self::InvalidPod(sentence),
        }
    }
}

impl From<&PodRejection> for Cause {
    fn from(refusal: &PodRejection) -> Self {
        match refusal.clone() {
            PodRejection::Denied(sentence) => Self::Denied(sentence),
            PodRejection::Broken(sentence)
            | PodRejection::Overdue(sentence)
            | PodRejection::Unread(sentence) => Self::PluginFailed(sentence),
            PodRejection::Invalid(sentence) => Self::InvalidPod(sentence),
            PodRejection::Forbidden(sentence) => Self::PodForbidden(sentence),
        }
    }
}

/// The message in the status and in conditions. Clients look at how it begins.
impl Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Completed => f.write_str("all containers completed"),
            Self::Exited(exit) => write!(f, "container {exit}"),
            Self::StartFailed(exit) => write!(f, "pod container {exit}"),
            Self::Unconfigured(sentence)
            | Self::InvalidConfig(sentence)
            | Self::InvalidOptions(sentence)
            | Self::InvalidPod(sentence)
            | Self::Denied(sentence)
            | Self::PluginFailed(sentence)
            | Self::PodForbidden(sentence) => f.write_str(sentence),
            Self::MetadataRefused(sentence) => {
                write!(f, "cannot set finalizer and labels: {sentence}")
            }
            Self::NameTaken { pod } => write!(
                f,
                "pod {pod} exists and does not belong to this Browser: delete it, or create a Browser with another name"
            ),
            Self::CreationTimeout { timeout, missing } => {
                let timeout = go_duration(*timeout);
                write!(f, "pod creation timeout exceeded after {timeout}")?;
                missing.iter().try_for_each(|it| write!(f, ", {it}"))
            }
            Self::CannotStart {
                container,
                reason,
                message,
            } => {
                write!(f, "pod container {container} failed: {reason}")?;
                message.iter().try_for_each(|it| write!(f, " - {it}"))
            }
            Self::PodFailed { reason, message } => {
                write!(f, "pod has failed with reason: {reason} - {message}")
            }
            Self::Disrupted(Disruption { reason, message }) => {
                write!(f, "pod disrupted: {reason}")?;
                match message.as_str() {
                    "" => Ok(()),
                    message => write!(f, " - {message}"),
                }
            }
            Self::PodLost => f.write_str("the pod is gone, and a session never gets a second one"),
        }
    }
}

impl Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            container,
            reason,
            code,
        } = self;
        write!(f, "{container} terminated: {reason} (exit code {code})")
    }
}

/// Returns a reason as conditions take it: a CamelCase word. The reason of a pod may be anything.
pub(crate) fn condition_reason(reason: &str) -> String {
    let word: String = reason
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '_')
        .collect();
    match word.chars().next() {
        Some(first) if first.is_ascii_alphabetic() => word,
        _ => names::event::POD_FAILED.to_owned(),
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

// Reads from a pod's status why its session ends, or why it does not run well.

/// The reasons for which a container waits in every start.
const STARTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];
/// A container waits for this reason while a Secret or ConfigMap is missing, and the kubelet starts it once they exist. Other
/// mistakes, such as a root image under `runAsNonRoot`, have the same reason, so they fail after the grace too.
const LACKS_CONFIG: &str = "CreateContainerConfigError";
/// The session is over when one of these containers exits.
const CRITICAL: [&str; 2] = [names::container::BROWSER, names::container::SELENIFEROUS];

/// Why a pod that was running is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unready<'a> {
    /// The reason in conditions; that of its kubelet may be any word.
    pub(crate) reason: &'a str,
    /// The sentence for people.
    pub(crate) message: &'a str,
    /// The reason of the Event that warns of it.
    pub(crate) event: &'static str,
}

impl Unready<'_> {
    const NODE_LOST: Self = Self {
        reason: names::reason::NODE_LOST,
        message: "the pod's node does not answer",
        event: names::reason::NODE_LOST,
    };
}

/// Returns why a pending pod will never run: a container failed, or it waits for more than its start.
/// With `config_may_come`, a container may still wait for its Secrets and ConfigMaps.
pub(crate) fn of_pending(pod: &SeenPod, config_may_come: bool) -> Option<Cause> {
    let statuses = all_statuses(pod);
    let restarts = restarting_init_containers(pod);
    let terminated = statuses
        .iter()
        .filter(|container| !restarts.contains(&container.name.as_str()))
        .find_map(|container| Some(Cause::StartFailed(exit(container, failed(container)?))));
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
    let statuses = all_statuses(pod);
    let first = statuses.iter().find_map(|it| Some((it, failed(it)?)));
    let reason = pod.status.reason.as_deref();
    let reason = reason.or(first.map(|(_, ended)| exit_reason(ended)));
    let exited = first.map(|(container, ended)| {
        let (name, code) = (&container.name, ended.exit_code);
        let exited = || format!("container {name} exited with code {code}");
        ended.message.clone().unwrap_or_else(exited)
    });
    let message = pod.status.message.clone().or(exited);
    Cause::PodFailed {
        reason: reason.unwrap_or("Unknown").to_owned(),
        message: message.unwrap_or_else(|| "the pod's status gives no reason".to_owned()),
    }
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

/// Returns when the last container of a pod ended, of those that did.
pub(crate) fn finished(pod: &SeenPod) -> Option<Timestamp> {
    let ended = all_statuses(pod).into_iter().filter_map(terminated);
    let times = ended.filter_map(|ended| Some(ended.finished_at.as_ref()?.0));
    times.max()
}

/// Returns the scheduler's sentence about a pod that fits no node.
pub(crate) fn unschedulable(pod: &SeenPod) -> Option<&str> {
    let obstacle = condition(pod, "PodScheduled").filter(|obstacle| obstacle.status == "False")?;
    obstacle.message.as_deref()
}

/// Returns why a running pod is not ready, if it is not.
pub(crate) fn unready(pod: &SeenPod) -> Option<Unready<'_>> {
    if pod.status.phase == Some(Phase::Unknown) {
        return Some(Unready::NODE_LOST);
    }
    let ready = condition(pod, "Ready").filter(|ready| ready.status != "True")?;
    // A kubelet always gives a reason. The node lifecycle controller, which acts for a lost node, changes the status alone.
    let Some(reason) = ready.reason.as_deref().filter(|reason| !reason.is_empty()) else {
        return Some(Unready::NODE_LOST);
    };
    let message = ready.message.as_deref().unwrap_or("the pod is not ready");
    Some(Unready {
        reason,
        message,
        event: names::event::POD_NOT_READY,
    })
}

/// Returns why a running pod has not got the resources of its session yet, if its node says so.
pub(crate) fn not_resized(pod: &SeenPod) -> Option<String> {
    let pending = condition(pod, names::condition::RESIZE_PENDING);
    let failed = || condition(pod, names::condition::RESIZE_IN_PROGRESS);
    let found = pending.or_else(failed)?;
    let words = [&found.reason, &found.message].into_iter().flatten();
    let words = words.map(String::as_str).filter(|it| !it.is_empty());
    let words: Vec<&str> = words.collect();
    Some(words.join(": "))
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

/// How a container ended, if it failed.
fn failed(container: &SeenContainerStatus) -> Option<&ContainerStateTerminated> {
    terminated(container).filter(|ended| ended.exit_code != 0)
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

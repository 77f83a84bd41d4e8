//! Why a session ended, or has to wait for its pod: one enum, and everything that clients read of it.
//!
//! The reason and the message of a status, the reason of a condition and the Event of a cause are put together here and nowhere else.
//! Sentences about configurations, options and plugins come from where they are found.

use std::fmt::{self, Display};
use std::time::Duration;

use podloom_api::{Phase, names};
use podloom_engine::events::Notice;
use podloom_mutation::PodRejection;

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
            Self::Completed
            | Self::InvalidOptions(_)
            | Self::Denied(_)
            | Self::PluginFailed(_)
            | Self::PodForbidden(_)
            | Self::MetadataRefused(_)
            | Self::NameTaken { .. }
            | Self::CreationTimeout { .. }
            | Self::PodLost => self.event(),
        }
    }

    /// Returns the reason in conditions.
    pub(crate) fn condition_reason(&self) -> String {
        condition_reason(self.reason())
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

#[cfg(test)]
mod tests;

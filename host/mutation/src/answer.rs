//! What became of a pod.

use std::fmt;

use serde_json::Value;

use crate::failure::CallFailure;
use crate::run::{PluginOutcome, PluginRun};

/// A pod that the chain accepted.
#[derive(Clone)]
pub struct MutatedPod {
    /// The pod. Without a chain it is unchanged; with one it has the chain's two annotations and no managedFields.
    pub pod: Value,
    /// The JSON Patch (RFC 6902), as text, from the submitted pod to this one: the operations of all plugins in order, then the
    /// chain's annotations. It never removes managedFields, because that would take their ownership from the client that created the pod.
    /// None if it was not requested.
    pub patch: Option<String>,
    /// The digest of the chain; none without a chain.
    pub chain: Option<String>,
    /// What each plugin did, in order.
    pub runs: Vec<PluginRun>,
}

impl fmt::Debug for MutatedPod {
    /// Without the pod and the patch, whose values may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MutatedPod")
            .field("patch_bytes", &self.patch.as_ref().map(String::len))
            .field("chain", &self.chain)
            .field("runs", &self.runs)
            .finish_non_exhaustive()
    }
}

impl MutatedPod {
    /// Returns a pod unchanged, for a process without a chain.
    pub fn untouched(pod: Value) -> Self {
        Self {
            pod,
            patch: None,
            chain: None,
            runs: Vec::new(),
        }
    }
}

/// A pod that was rejected.
#[derive(Clone, Debug)]
pub struct RejectedPod {
    /// Why.
    pub rejection: PodRejection,
    /// What each plugin did that was called; the last one rejected the pod. Nothing of it is kept.
    pub runs: Vec<PluginRun>,
}

impl From<PodRejection> for RejectedPod {
    /// Returns a pod that was rejected before any plugin was called.
    fn from(rejection: PodRejection) -> Self {
        Self {
            rejection,
            runs: Vec::new(),
        }
    }
}

impl fmt::Display for RejectedPod {
    /// Which plugin rejected the pod, and why.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.runs.last().map(|run| (&run.plugin, &run.outcome)) {
            Some((plugin, PluginOutcome::Denied(reason))) => {
                write!(f, "plugin {plugin} denies the pod: {reason}")
            }
            Some((plugin, PluginOutcome::Failed(failure))) => {
                write!(f, "plugin {plugin} failed: {failure}")
            }
            _ => f.write_str(self.rejection.message()),
        }
    }
}

/// Returns what each plugin did that was called, whatever became of the pod.
pub fn runs(result: &Result<MutatedPod, RejectedPod>) -> &[PluginRun] {
    match result {
        Ok(mutated) => &mutated.runs,
        Err(rejected) => &rejected.runs,
    }
}

impl PluginRun {
    /// Returns why the pod is rejected after this run; none if it goes on.
    pub fn rejection(&self) -> Option<PodRejection> {
        let plugin = &self.plugin;
        match &self.outcome {
            PluginOutcome::Denied(reason) => {
                Some(PodRejection::Denied(format!("{plugin}: {reason}")))
            }
            PluginOutcome::Failed(failure) => {
                let message = format!("{plugin}: {failure}");
                Some(match failure {
                    CallFailure::Overdue => PodRejection::Overdue(message),
                    CallFailure::NamespaceUnread => PodRejection::Unread(message),
                    _ => PodRejection::Broken(message),
                })
            }
            PluginOutcome::Mutated
            | PluginOutcome::Unchanged
            | PluginOutcome::Skipped(_)
            | PluginOutcome::Ignored(_) => None,
        }
    }
}

/// Why a pod was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodRejection {
    /// A plugin denied the pod for this reason, and will deny it again.
    Denied(String),
    /// A plugin failed, or no chain is loaded; the next attempt may succeed.
    Broken(String),
    /// The deadline passed before the chain had finished, or a chain that writes labels was loaded after the pod's owner was not read;
    /// the next attempt may succeed.
    Overdue(String),
    /// A plugin needs labels or annotations of the namespace, which are not known; the next attempt may succeed.
    Unread(String),
    /// The API server calls the pod invalid.
    Invalid(String),
    /// The API server does not allow the pod: quota, admission, a namespace that is being deleted.
    Forbidden(String),
}

impl PodRejection {
    /// Returns the reason, for people.
    pub fn message(&self) -> &str {
        match self {
            Self::Denied(message)
            | Self::Broken(message)
            | Self::Overdue(message)
            | Self::Unread(message)
            | Self::Invalid(message)
            | Self::Forbidden(message) => message,
        }
    }
}

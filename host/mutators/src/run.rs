//! What one plugin did with one pod.

use std::fmt;
use std::time::Duration;

use podloom_pod_path::Write;

use crate::matching::Dimension;
use crate::plugin::Plugin;
use crate::request::{PodFields, pod_event};
use crate::sandbox::CallFailure;

/// What one plugin did with one pod.
pub struct PluginRun {
    /// The plugin's name in the chain.
    pub plugin: String,
    /// Its version.
    pub version: String,
    /// The digest of its file.
    pub sha256: String,
    /// What came of it.
    pub outcome: PluginOutcome,
    /// What it wrote, in order. Values may be secret: they belong in a diff or a trace log, nowhere else.
    pub writes: Vec<Write>,
    /// How many writes it tried that it was not granted.
    pub refused_writes: usize,
    /// How many times it read.
    pub reads: usize,
    /// How many reads it tried that it was not granted.
    pub refused_reads: usize,
    /// What it wants the user to know.
    pub notes: Vec<String>,
    /// How long the call took, with making and dropping the sandbox; zero if it was not called.
    pub duration: Duration,
    /// How much memory the plugin had at the end of the call, in bytes; zero if it was not called.
    pub memory: usize,
}

/// What came of a plugin's run on a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PluginOutcome {
    /// It wrote.
    Mutated,
    /// It ran and wrote nothing.
    Unchanged,
    /// Its `match` left this pod out; here is the first dimension that did.
    Skipped(Dimension),
    /// It failed under the policy Ignore, and left no trace.
    Ignored(CallFailure),
    /// It denied the pod, whatever its policy is; here are its words.
    Denied(String),
    /// It failed, and the pod with it.
    Failed(CallFailure),
}

impl fmt::Debug for PluginRun {
    /// Of what was written and said only where and how much: values may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths: Vec<&str> = self.writes.iter().map(|write| &*write.path).collect();
        f.debug_struct("PluginRun")
            .field("plugin", &self.plugin)
            .field("version", &self.version)
            .field("outcome", &self.outcome)
            .field("writes", &paths)
            .field("refused_writes", &self.refused_writes)
            .field("reads", &self.reads)
            .field("refused_reads", &self.refused_reads)
            .field("notes", &self.notes.len())
            .finish_non_exhaustive()
    }
}

impl PluginOutcome {
    /// One word for a metric.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Mutated => "mutated",
            Self::Unchanged => "unchanged",
            Self::Skipped(_) => "skipped",
            Self::Ignored(_) => "ignored",
            Self::Denied(_) => "denied",
            Self::Failed(_) => "failed",
        }
    }
}

impl PluginRun {
    pub(crate) fn new(plugin: &Plugin, outcome: PluginOutcome) -> Self {
        Self {
            plugin: plugin.name.clone(),
            version: plugin.description.version.clone(),
            sha256: plugin.sha256.clone(),
            outcome,
            writes: Vec::new(),
            refused_writes: 0,
            reads: 0,
            refused_reads: 0,
            notes: Vec::new(),
            duration: Duration::ZERO,
            memory: 0,
        }
    }

    /// Paths and counts at debug; values, which may be secret, at trace alone.
    pub(crate) fn log(&self, pod: PodFields<'_>) {
        let (plugin, outcome) = (self.plugin.as_str(), self.outcome.as_str());
        if let PluginOutcome::Ignored(failure) = &self.outcome {
            pod_event!(warn, pod, plugin, outcome, error = %failure, "plugin failed and was ignored");
        }
        pod_event!(
            debug,
            pod,
            plugin,
            outcome,
            writes = self.writes.len(),
            refused = self.refused_writes,
            reads = self.reads,
            refused_reads = self.refused_reads,
            "plugin run"
        );
        if tracing::enabled!(tracing::Level::DEBUG) {
            for write in &self.writes {
                pod_event!(debug, pod, plugin, path = write.path, "plugin wrote");
                pod_event!(trace, pod, plugin, path = write.path, old = ?write.old, new = ?write.new, "plugin wrote");
            }
        }
    }
}

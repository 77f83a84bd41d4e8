//! What one plugin did with one pod.

use std::fmt;
use std::time::Duration;

use podloom_pod_path::{Usage, Write};
use podloom_turns::Lines;

use crate::matching::Dimension;
use crate::note::Note;
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
    /// How it ended.
    pub outcome: RunOutcome,
    /// What it wrote, in order. Values may be secret: show them only in the user's own diff or in trace logs.
    pub writes: Vec<Write>,
    /// How many of its writes were refused because they were not granted.
    pub refused_writes: usize,
    /// How often it read.
    pub reads: usize,
    /// How many of its reads were refused because they were not granted.
    pub refused_reads: usize,
    /// What it read and wrote; none unless that was asked for.
    pub usage: Option<Box<Usage>>,
    /// Its notes for the user, the warnings first. If it has more than are kept, the last one counts the others.
    pub notes: Vec<Note>,
    /// Where a program in its configuration denied the pod, if the plugin says so.
    pub denials: Vec<String>,
    /// How long the call took, including creating and dropping the sandbox; zero if it was not called.
    pub duration: Duration,
    /// Its memory at the end of the call, in bytes; zero if it was not called.
    pub memory: usize,
    /// How many instructions it executed; none unless the engine counts them.
    pub fuel: Option<u64>,
}

/// How a plugin's run on a pod ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// It wrote.
    Mutated,
    /// It ran without writing.
    Unchanged,
    /// Its `match` does not select the pod; holds the first dimension that does not.
    Skipped(Dimension),
    /// It failed under the policy Ignore; its writes were rolled back.
    Ignored(CallFailure),
    /// It denied the pod; holds the reason that it gave.
    Denied(String),
    /// It failed under the policy Fail; the pod was rejected.
    Failed(CallFailure),
}

impl fmt::Debug for PluginRun {
    /// Shows only paths and counts of writes and notes, since values may be secret.
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

impl RunOutcome {
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
    pub(crate) fn new(plugin: &Plugin, outcome: RunOutcome) -> Self {
        Self {
            plugin: plugin.name.clone(),
            version: plugin.description.version.clone(),
            sha256: plugin.sha256.clone(),
            outcome,
            writes: Vec::new(),
            refused_writes: 0,
            reads: 0,
            refused_reads: 0,
            usage: None,
            notes: Vec::new(),
            denials: Vec::new(),
            duration: Duration::ZERO,
            memory: 0,
            fuel: None,
        }
    }

    /// Logs paths and counts at debug, and values, which may be secret, at trace only.
    pub(crate) fn log(&self, pod: PodFields<'_>, lines: Option<&Lines>) {
        let (plugin, outcome) = (self.plugin.as_str(), self.outcome.as_str());
        let ignored = "plugin failed and was ignored";
        if let RunOutcome::Ignored(failure) = &self.outcome
            && pod.may_log(lines, plugin, ignored)
        {
            pod_event!(warn, pod, plugin, outcome, error = %failure, "{ignored}");
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

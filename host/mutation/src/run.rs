//! What one plugin did with one pod.

use std::fmt;
use std::time::Duration;

use podloom_pod_path::{Usage, Write};
use serde::Serialize;

use crate::failure::CallFailure;

/// What one plugin did with one pod.
#[derive(Clone, Default, PartialEq)]
pub struct PluginRun {
    /// The plugin's name in the chain.
    pub plugin: String,
    /// Its version.
    pub version: String,
    /// The digest of its file.
    pub sha256: String,
    /// How it ended.
    pub outcome: PluginOutcome,
    /// What it wrote, in order. Values may be secret: the chain leaves them out unless it is asked for them. Show them only in the user's
    /// own diff.
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

impl fmt::Debug for PluginRun {
    /// Shows only paths of writes and the number of notes: values may be secret, and a note may quote them.
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

/// How a plugin's run on a pod ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PluginOutcome {
    /// It wrote.
    Mutated,
    /// It ran without writing.
    #[default]
    Unchanged,
    /// Its `match` does not select the pod; holds the first dimension that does not.
    Skipped(Dimension),
    /// It failed under the policy Ignore; its writes were undone.
    Ignored(CallFailure),
    /// It denied the pod; holds the reason that it gave.
    Denied(String),
    /// It failed under the policy Fail; the pod was rejected.
    Failed(CallFailure),
}

impl PluginOutcome {
    /// Returns one word, for metrics and the console.
    pub const fn as_str(&self) -> &'static str {
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

/// The part of a `match` that excluded a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// `match.kinds`
    Kinds,
    /// `match.namespaces`
    Namespaces,
    /// `match.namespaceSelector`
    NamespaceSelector,
    /// `match.selector`
    Selector,
}

impl Dimension {
    /// Returns the field of `match` as the manifest writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kinds => "kinds",
            Self::Namespaces => "namespaces",
            Self::NamespaceSelector => "namespaceSelector",
            Self::Selector => "selector",
        }
    }
}

/// What a plugin tells the user about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Whether somebody should act: the pod violates a rule, or did not get what it asked for.
    pub severity: Severity,
    /// One line, for people.
    pub text: String,
}

/// Whether somebody should look: of a plugin's note, and of an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Severity {
    /// All is well.
    Normal,
    /// Somebody should look.
    Warning,
}

impl Note {
    /// Returns a note that somebody should act on.
    pub fn warning(text: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            text: text.into(),
        }
    }

    /// Returns a note that is good to know.
    pub fn normal(text: impl Into<String>) -> Self {
        Self {
            severity: Severity::Normal,
            text: text.into(),
        }
    }
}

/// Returns what a pod's author should know, each with its plugin, the worst first: failures that were ignored, warnings, notes.
pub fn remarks(runs: &[PluginRun]) -> Vec<String> {
    let [warnings, notes] = [Severity::Warning, Severity::Normal].map(|it| remarks_of(runs, it));
    [warnings, notes].concat()
}

/// Returns the remarks of one severity. A failure that was ignored is a warning.
pub fn remarks_of(runs: &[PluginRun], severity: Severity) -> Vec<String> {
    let ignored = runs.iter().filter_map(|run| match &run.outcome {
        PluginOutcome::Ignored(failure) if severity == Severity::Warning => Some(format!(
            "plugin {} failed and was ignored: {failure}",
            run.plugin
        )),
        _ => None,
    });
    let notes = runs.iter().flat_map(|run| {
        let notes = run.notes.iter();
        let notes = notes.filter(|note| note.severity == severity);
        notes.map(|note| format!("{}: {}", run.plugin, note.text))
    });
    ignored.chain(notes).collect()
}

//! What became of a pod, and what each plugin did with it.

use std::fmt;
use std::time::Duration;

use podloom_pod_path::{Usage, Write};
use serde::Serialize;
use serde_json::Value;

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
            | PluginOutcome::Excepted { .. }
            | PluginOutcome::Ignored(_) => None,
        }
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
    /// A ChainException lets the pod pass: the plugin did not run, or its denial and its writes were undone.
    Excepted {
        /// The name of the ChainException.
        by: String,
        /// When that ends.
        until: String,
        /// The reason of the denial; none if the plugin did not run.
        denial: Option<String>,
    },
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
            Self::Excepted { .. } => "excepted",
            Self::Ignored(_) => "ignored",
            Self::Denied(_) => "denied",
            Self::Failed(_) => "failed",
        }
    }
}

/// The part of a `match` that excluded a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// `match.operations`
    Operations,
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
            Self::Operations => "operations",
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

/// Returns the remarks of one severity. A failure that was ignored is a warning, and so is a denial that an exception lets pass.
pub fn remarks_of(runs: &[PluginRun], severity: Severity) -> Vec<String> {
    let ignored = runs.iter().filter_map(|run| match &run.outcome {
        PluginOutcome::Ignored(failure) if severity == Severity::Warning => Some(format!(
            "plugin {} failed and was ignored: {failure}",
            run.plugin
        )),
        PluginOutcome::Excepted {
            by,
            until,
            denial: Some(reason),
        } if severity == Severity::Warning => Some(format!(
            "plugin {} will deny this pod when ChainException {by} ends, {until}: {reason}",
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

/// Why a call failed. Each message continues a sentence that begins with the plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallFailure {
    /// The plugin itself returned `failed`.
    #[error("{0}")]
    Reported(String),
    /// It needs more memory than its limit.
    #[error("it needs more memory than its limit of {}", show_bytes(*.limit))]
    OutOfMemory {
        /// The limit in bytes.
        limit: usize,
    },
    /// It ran longer than its limit.
    #[error("it ran longer than its limit of {}", show_duration(*.limit))]
    TimedOut {
        /// The limit.
        limit: Duration,
    },
    /// Its calls are nested too deeply.
    #[error(
        "it ran out of stack: its functions call each other too deeply; use a loop in place of recursion"
    )]
    StackExhausted,
    /// It exceeded another limit of the host.
    #[error("{0}")]
    OverLimit(String),
    /// It trapped.
    #[error("it crashed: {0}")]
    Trapped(String),
    /// It passed something that the contract does not allow, such as text that is not UTF-8, or a pointer out of bounds.
    #[error("it broke the plugin contract: {0}")]
    BrokeContract(String),
    /// It was not called: building its chain took too long.
    #[error(
        "it was not tried, because building the chain took too long; lower `limits.timeout` of slow plugins"
    )]
    NoTimeLeft,
    /// The deadline of the pod has passed.
    #[error("it did not finish before the deadline of this pod")]
    Overdue,
    /// It needs labels or annotations of a namespace that are not known.
    #[error("it needs the labels or annotations of the pod's namespace, which could not be read")]
    NamespaceUnread,
}

impl CallFailure {
    /// Returns whether it is not the plugin's own failure, so that its failure policy does not decide.
    pub fn is_of_the_host(&self) -> bool {
        matches!(self, Self::Overdue | Self::NamespaceUnread)
    }

    /// Returns one word for a metric: `reported`, `memory`, `timeout`, `stack`, `limit`, `trap`, `contract`,
    /// `no_time`, `overdue` or `namespace`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Reported(_) => "reported",
            Self::OutOfMemory { .. } => "memory",
            Self::TimedOut { .. } => "timeout",
            Self::StackExhausted => "stack",
            Self::OverLimit(_) => "limit",
            Self::Trapped(_) => "trap",
            Self::BrokeContract(_) => "contract",
            Self::NoTimeLeft => "no_time",
            Self::Overdue => "overdue",
            Self::NamespaceUnread => "namespace",
        }
    }
}

/// Returns bytes for people: `16 MiB`, `1.5 KiB`.
pub fn show_bytes(bytes: usize) -> String {
    let units = [("GiB", 1_usize << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = units.into_iter().find(|(_, size)| bytes >= *size);
    match unit {
        None => format!("{bytes} bytes"),
        Some((name, size)) if bytes.is_multiple_of(size) => format!("{} {name}", bytes / size),
        Some((name, size)) => format!("{}.{} {name}", bytes / size, bytes % size * 10 / size),
    }
}

/// Returns a duration for people: `1 s`, `250 ms`.
pub fn show_duration(duration: Duration) -> String {
    if duration.subsec_nanos() == 0 {
        format!("{} s", duration.as_secs())
    } else {
        format!("{} ms", duration.as_millis())
    }
}

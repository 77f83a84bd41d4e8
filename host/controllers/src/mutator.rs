//! The plugin chain as controllers and webhooks see it: it takes a pod and returns the mutated pod, or rejects it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use serde_json::Value;

use crate::engine::events::Severity;
use crate::engine::namespaces::NamespaceMetadata;

/// Passes pods through the plugin chain. Nothing else calls the chain.
pub trait PodMutator: Send + Sync {
    /// Returns the mutated pod, or why it was rejected.
    ///
    /// The pod is JSON, so that fields which our types do not know survive. It sees one chain from start to end, even if the chain is
    /// reloaded meanwhile. Nothing of a rejected pod is kept.
    fn mutate(
        &self,
        pod: Value,
        request: PodRequest,
    ) -> BoxFuture<'_, Result<MutatedPod, RejectedPod>>;

    /// Returns the digest of the chain that the next pod will see; none without a chain.
    fn chain(&self) -> Option<String>;

    /// Returns whether a plugin of that chain may write labels, so that it matters which ones a workload needs.
    fn writes_labels(&self) -> bool {
        true
    }
}

/// What a pod is mutated for, as far as plugins may ask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodRequest {
    /// The kind of the object that the pod is made for; `Pod` for pods without one, and for templates of workloads.
    pub kind: &'static str,
    /// The object's name.
    pub name: String,
    /// The object's namespace.
    pub namespace: String,
    /// The object's labels.
    pub labels: BTreeMap<String, String>,
    /// The object's annotations.
    pub annotations: BTreeMap<String, String>,
    /// The namespace's labels.
    pub namespace_labels: BTreeMap<String, String>,
    /// The namespace's annotations.
    pub namespace_annotations: BTreeMap<String, String>,
    /// Whether the namespace's labels and annotations are not known: then a plugin that needs them fails the pod.
    pub is_namespace_unread: bool,
    /// Keys of the labels that the workload's selector matches: no plugin may change them.
    pub selector: Arc<[String]>,
    /// Whether the selector was not read, since the chain wrote no labels at the time. A chain that writes labels then rejects the pod
    /// as overdue.
    pub is_selector_unread: bool,
    /// Whether this is a dry run: the pod will not be created.
    pub dry_run: bool,
    /// When the caller stops waiting: a plugin that is still running then has failed. None: only the plugins' own timeouts count.
    pub deadline: Option<Instant>,
    /// Who asks; none for the operator itself. Only for the limit on log lines: plugins do not see it.
    pub peer: Option<IpAddr>,
    /// Whether to make the patch, which costs as much time as the writes themselves.
    pub wants_patch: bool,
}

impl PodRequest {
    /// Returns the request with what the namespace says of itself; none if that is not known.
    #[must_use]
    pub fn of_namespace(self, about: Option<NamespaceMetadata>) -> Self {
        let is_namespace_unread = about.is_none();
        let about = about.unwrap_or_default();
        Self {
            namespace_labels: about.labels,
            namespace_annotations: about.annotations,
            is_namespace_unread,
            ..self
        }
    }
}

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

/// What one plugin did with one pod.
#[derive(Clone, PartialEq)]
pub struct PluginRun {
    /// The plugin's name in the chain.
    pub plugin: String,
    /// Its version.
    pub version: String,
    /// How its run ended.
    pub outcome: PluginOutcome,
    /// What it wrote, in order.
    pub writes: Vec<Write>,
    /// How many of its writes failed because they were not granted.
    pub refused_writes: usize,
    /// How many of its reads failed because they were not granted.
    pub refused_reads: usize,
    /// Its notes about the pod, for people, the warnings first.
    pub notes: Vec<Note>,
}

impl fmt::Debug for PluginRun {
    /// Shows the paths of the writes and the number of notes only: values may be secret, and a note may quote them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths: Vec<&str> = self.writes.iter().map(|write| &*write.path).collect();
        f.debug_struct("PluginRun")
            .field("plugin", &self.plugin)
            .field("version", &self.version)
            .field("outcome", &self.outcome)
            .field("writes", &paths)
            .field("refused_writes", &self.refused_writes)
            .field("refused_reads", &self.refused_reads)
            .field("notes", &self.notes.len())
            .finish()
    }
}

/// How a plugin's run on a pod ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PluginOutcome {
    /// It wrote.
    Mutated,
    /// It ran and wrote nothing.
    Unchanged,
    /// The manifest's `match` excludes this pod; this field of it decided.
    Skipped(&'static str),
    /// It failed with this message and was ignored: its writes were undone.
    Ignored(String),
    /// It denied the pod for this reason.
    Denied(String),
    /// It failed with this message, and the pod was rejected.
    Failed(String),
}

/// One change that a plugin made.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// The path. Elements of lists are named by their merge key: `/spec/containers/[name=app]/image`.
    pub path: String,
    /// The old and the new value; none where values may not be shown.
    pub change: Option<Change>,
}

/// The values of a write. They may be secret, so show them in the user's own diff and nowhere else.
#[derive(Clone, PartialEq)]
pub struct Change {
    /// The old value; none if the path was absent.
    pub old: Option<Value>,
    /// The new value as JSON text; none if it was removed.
    pub new: Option<String>,
}

impl fmt::Debug for Change {
    /// Shows only whether there was a value, and is one now.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change")
            .field("had_value", &self.old.is_some())
            .field("has_value", &self.new.is_some())
            .finish()
    }
}

/// A plugin's note about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Whether somebody should act: the pod violates a rule, or did not get what it asked for.
    pub severity: Severity,
    /// The note, for people.
    pub text: String,
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

#[cfg(test)]
mod tests;

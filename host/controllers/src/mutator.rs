//! What Podloom knows of the plugin chain wherever it makes or sees pods: that it takes a pod and returns one, or refuses.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use serde_json::Value;

/// Passes pods through the chain of plugins: the one way to it.
pub trait PodMutator: Send + Sync {
    /// Returns the pod as it shall be, or why it shall not be.
    ///
    /// The pod is JSON, so that fields which our types do not know survive. It sees one chain from start to end, and nothing of a
    /// refused pod is left.
    fn mutate(&self, pod: Value, request: PodRequest)
    -> BoxFuture<'_, Result<MutatedPod, Refused>>;
}

/// For whom a pod is mutated: what plugins may ask about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodRequest {
    /// The kind of the object that the pod is made for; `Pod` for pods that are their own, and for templates.
    pub kind: &'static str,
    /// The object's name.
    pub name: String,
    /// The object's namespace.
    pub namespace: String,
    /// The object's labels.
    pub labels: BTreeMap<String, String>,
    /// The object's annotations.
    pub annotations: BTreeMap<String, String>,
    /// The namespace's labels; empty where namespaces may not be read.
    pub namespace_labels: BTreeMap<String, String>,
    /// The namespace's annotations; empty where namespaces may not be read.
    pub namespace_annotations: BTreeMap<String, String>,
    /// Keys of the labels by which a workload's selector finds the pod: no plugin may change them.
    pub selector: Arc<[String]>,
    /// Whether the pod will be thrown away.
    pub dry_run: bool,
    /// When nobody waits for the pod any more; a plugin that has not ended by then has failed. None: as long as the plugins' own
    /// limits allow.
    pub deadline: Option<Instant>,
    /// Whether the patch is wanted, which costs as much again as what was written.
    pub wants_patch: bool,
}

/// A pod that the chain let pass.
#[derive(Clone)]
pub struct MutatedPod {
    /// The pod. Without a chain it is what came; with one it is stamped, and has no managedFields.
    pub pod: Value,
    /// What makes this pod of the one that came, but for managedFields: a JSON Patch (RFC 6902) as JSON text, with the operations
    /// of all plugins in order and those of the stamp. It does not name managedFields, whose removal would take them from whoever
    /// made the pod. None if it was not asked for.
    pub patch: Option<String>,
    /// The digest of the chain; none if there is no chain.
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
    /// A pod that nothing was done to, for there is no chain.
    pub fn untouched(pod: Value) -> Self {
        Self {
            pod,
            patch: None,
            chain: None,
            runs: Vec::new(),
        }
    }

    /// What plugins have to say about the pod, in the order of the chain.
    pub fn notes(&self) -> Vec<Note> {
        let notes = self.runs.iter().flat_map(|run| {
            run.notes.iter().map(|text| Note {
                plugin: run.plugin.clone(),
                text: text.clone(),
            })
        });
        notes.collect()
    }
}

/// A pod that shall not be.
#[derive(Clone, Debug)]
pub struct Refused {
    /// Why.
    pub refusal: Refusal,
    /// What each plugin did that was called, last the one that refused the pod. Nothing of it is kept.
    pub runs: Vec<PluginRun>,
}

impl From<Refusal> for Refused {
    /// Refused before any plugin was called.
    fn from(refusal: Refusal) -> Self {
        Self {
            refusal,
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
    /// What came of it.
    pub outcome: Outcome,
    /// What it wrote, in order.
    pub writes: Vec<Write>,
    /// How many writes it tried that it was not granted.
    pub refused_writes: usize,
    /// How many reads it tried that it was not granted.
    pub refused_reads: usize,
    /// What it says about the pod, for people.
    pub notes: Vec<String>,
}

impl fmt::Debug for PluginRun {
    /// Of what was written and said only where and how much: values may be secret, and a plugin may quote them.
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

/// What came of a plugin's run on a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It wrote.
    Mutated,
    /// It ran and wrote nothing.
    Unchanged,
    /// The manifest's `match` left this pod out, by this field of it.
    Skipped(&'static str),
    /// It failed, as these words say, and was ignored: it left no trace.
    Ignored(String),
    /// It denied the pod, and this is its reason.
    Denied(String),
    /// It failed, as these words say, and the pod with it.
    Failed(String),
}

/// One change that a plugin made.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// Where: elements of lists are named by the field that tells them apart, `/spec/containers/[name=app]/image`.
    pub path: String,
    /// What was there and what is there now; none where values are not for people to see.
    pub change: Option<Change>,
}

/// What a write changed. Values may be secret: they belong in the user's own diff, and nowhere else.
#[derive(Clone, PartialEq)]
pub struct Change {
    /// What was there; none if nothing was.
    pub old: Option<Value>,
    /// What is there now, as JSON text; none if nothing is.
    pub new: Option<String>,
}

impl fmt::Debug for Change {
    /// Only whether something was there, and is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change")
            .field("had_value", &self.old.is_some())
            .field("has_value", &self.new.is_some())
            .finish()
    }
}

/// What a plugin says about a pod that it let pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The plugin's name in the chain.
    pub plugin: String,
    /// What it says, for people.
    pub text: String,
}

/// Why a pod shall not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A plugin rejected the pod, as its reason says; it will do so again.
    Denied(String),
    /// A plugin broke, or there is no chain; the next attempt may work.
    Broken(String),
    /// The API server does not accept the pod as it is.
    Invalid(String),
    /// The API server does not let the pod in: quota, admission, a namespace that goes.
    Forbidden(String),
}

impl Refusal {
    /// Returns the sentence that says why.
    pub fn message(&self) -> &str {
        match self {
            Self::Denied(message)
            | Self::Broken(message)
            | Self::Invalid(message)
            | Self::Forbidden(message) => message,
        }
    }
}

#[cfg(test)]
mod tests;

//! What is asked of the plugin chain for a pod, and what it answers: plain data, for those who have a pod and for the chain itself.

mod answer;
mod exception;
mod later;
mod owner;
mod workload;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use podloom_pod_path::LAST_APPLIED;
use serde_json::Value;

pub use self::answer::{
    CallFailure, Dimension, MutatedPod, Note, PluginOutcome, PluginRun, PodRejection, RejectedPod,
    Severity, remarks, remarks_of, runs, show_bytes, show_duration,
};
pub use self::exception::{Effect, PodException};
pub use self::later::LaterChange;
pub use self::owner::{named_owner, owner_of};
pub use self::workload::selected_labels;
pub use podloom_pod_path::{Operation, Usage, Write};

/// The label that the API server sets on every namespace.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

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

    /// Returns whether a pod that passed the chain with this digest would pass the same one now. During a rollout, two chains serve.
    fn serves(&self, digest: &str) -> bool {
        self.chain().as_deref() == Some(digest)
    }

    /// Returns whether a plugin of that chain runs on changes of pods that exist. True without a chain: then nobody can say that none
    /// would.
    fn takes_updates(&self) -> bool {
        true
    }

    /// Returns whether a plugin of that chain runs when a session gets its pod.
    fn takes_claims(&self) -> bool {
        false
    }

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
    /// The object's name; empty if the API server will generate it.
    pub name: String,
    /// The object's namespace.
    pub namespace: String,
    /// The object's labels.
    pub labels: BTreeMap<String, String>,
    /// The object's annotations.
    pub annotations: BTreeMap<String, String>,
    /// Whose pods belong together with this one, as [`owner_of`] says it; empty for a pod that belongs to nobody's. During a rollout, all
    /// pods of one owner pass the same chain.
    pub owner: String,
    /// The namespace's labels.
    pub namespace_labels: BTreeMap<String, String>,
    /// The namespace's annotations.
    pub namespace_annotations: BTreeMap<String, String>,
    /// Whether the namespace's labels and annotations are not known: then a plugin that needs them fails the pod, whatever its failure
    /// policy is.
    pub is_namespace_unread: bool,
    /// Keys of the labels that the workload's selector matches: no plugin may change them.
    pub selector: Arc<[String]>,
    /// Whether the selector was not read, since the chain wrote no labels at the time. A chain that writes labels then rejects the pod
    /// as overdue.
    pub is_selector_unread: bool,
    /// What is changed in a pod that exists; none for a new pod.
    pub later: Option<Arc<LaterChange>>,
    /// What somebody excepts the pod from, by name.
    pub exceptions: Arc<[PodException]>,
    /// Whether this is a dry run: the pod will not be created.
    pub dry_run: bool,
    /// When the caller stops waiting: a plugin that is still running then has failed. None: only the plugins' own limits count, and a call
    /// takes at most twice its limit.
    pub deadline: Option<Instant>,
    /// Who asks; none for the operator itself. Only for the limit on log lines: plugins do not see it.
    pub peer: Option<IpAddr>,
    /// Whether to make the patch, which costs as much time as the writes themselves.
    pub wants_patch: bool,
}

/// The labels and annotations of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceMetadata {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

impl NamespaceMetadata {
    /// Reads them from the namespace.
    #[must_use]
    pub fn of(namespace: &Value) -> Self {
        Self {
            labels: texts(namespace, "labels"),
            annotations: texts(namespace, "annotations"),
        }
    }

    /// Returns what every namespace has.
    #[must_use]
    pub fn nothing_but(name: &str) -> Self {
        Self::default().named(name)
    }

    /// Returns it with the label that every namespace has.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.labels.insert(NAME_LABEL.to_owned(), name.to_owned());
        self
    }
}

impl PodRequest {
    /// Returns what plugins may ask about a pod, or about one of a template: what it says itself. The caller adds its namespace.
    #[must_use]
    pub fn of_pod(pod: &Value) -> Self {
        Self {
            kind: "Pod",
            labels: texts(pod, "labels"),
            annotations: texts(pod, "annotations"),
            ..Self::default()
        }
    }

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

    /// Returns an annotation of the object, unless it is hidden from plugins.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        shown(&self.annotations, key)
    }

    /// Returns an annotation of the namespace, unless it is hidden from plugins.
    pub fn namespace_annotation(&self, key: &str) -> Option<&str> {
        shown(&self.namespace_annotations, key)
    }
}

/// Returns the strings of a map in an object's metadata.
pub fn texts(object: &Value, field: &str) -> BTreeMap<String, String> {
    let map = object
        .get("metadata")
        .and_then(|metadata| metadata.get(field)?.as_object());
    let fields = map.into_iter().flatten();
    let texts = fields.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    texts.collect()
}

fn shown<'r>(annotations: &'r BTreeMap<String, String>, key: &str) -> Option<&'r str> {
    let value = annotations.get(key).filter(|_| key != LAST_APPLIED);
    value.map(String::as_str)
}

#[cfg(test)]
mod tests;

//! What a controller knows of the plugin chain: that it takes a pod and returns one, or refuses.

use std::collections::BTreeMap;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

/// Passes rendered pods through the chain of plugins.
pub trait PodMutator: Send + Sync {
    /// Returns the pod as it shall be created, or why it shall not.
    ///
    /// A pod sees one chain from start to end, and nothing of a refused pod is left.
    fn mutate(&self, pod: &Pod, request: PodRequest) -> BoxFuture<'_, Result<MutatedPod, Refusal>>;
}

/// For whom a pod is mutated: what plugins may ask about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodRequest {
    /// The kind of the object that the pod is made for.
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
}

/// A pod that the chain let pass.
#[derive(Clone, Debug)]
pub struct MutatedPod {
    /// The pod as JSON, since a plugin may set fields that our types do not know yet.
    pub pod: Value,
    /// What plugins have to say about it.
    pub notes: Vec<Note>,
}

/// What a plugin says about a pod that it let pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The plugin's name in the chain.
    pub plugin: String,
    /// What it says, for people.
    pub text: String,
}

/// Why a pod is not created.
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

//! What is being mutated, and for whom.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The submitted object, as plugins may ask about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The kind of the submitted object: one of Podloom's own kinds, else `Pod`; templates of workloads are `Pod` too.
    pub kind: String,
    /// The submitted object's name; empty when only the API server will choose it.
    pub name: String,
    /// The namespace the pod will live in.
    pub namespace: String,
    /// The submitted object's labels.
    pub labels: BTreeMap<String, String>,
    /// The submitted object's annotations.
    pub annotations: BTreeMap<String, String>,
    /// Labels of the namespace; empty when they are not known.
    pub namespace_labels: BTreeMap<String, String>,
    /// Annotations of the namespace; empty when they are not known.
    pub namespace_annotations: BTreeMap<String, String>,
    /// Whether the result will be thrown away.
    pub dry_run: bool,
    /// Keys of the labels by which the workload's selector finds this pod; no plugin may change them.
    pub selector: Arc<[String]>,
}

//! Cluster: machines from a TOSCA template, or a cluster that exists already.
#![expect(
    unreachable_pub,
    reason = "KubeSchema repeats the struct inside a function"
)]

mod status;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::provider::SecretRef;
use crate::schema;

pub use status::{ClusterOperation, ClusterState, ClusterStatus, Machines, OperationKind};

/// A Cluster as the API server stores it.
pub type ClusterObject = kube::core::Object<ClusterSpec, ClusterStatus>;

/// Which machines there should be, and where.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "infrastructure.podloom.dev",
    version = "v1alpha1",
    kind = "Cluster",
    plural = "clusters",
    category = "podloom",
    namespaced,
    status = "ClusterStatus",
    derive = "PartialEq",
    doc = "A cluster of machines, which an Infrastructure Manager creates from a TOSCA template; or one that exists already.",
    validation = Rule::new("size(self.metadata.name) <= 63").message("the name has at most 63 characters, use a shorter one"),
    validation = Rule::new("!has(oldSelf.status) || !has(oldSelf.status.runningOn) || (has(self.spec.cloudRef) == has(oldSelf.spec.cloudRef) && (!has(self.spec.cloudRef) || self.spec.cloudRef == oldSelf.spec.cloudRef))").message("spec.cloudRef cannot be changed while machines run: delete this Cluster and create another"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Cloud", type_ = "string", json_path = ".status.scheduledTo.name"),
    printcolumn(name = "VMs", type_ = "integer", json_path = ".status.vms.total"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "ID",
        type_ = "string",
        json_path = ".status.clusterId",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.tosca) != has(self.kubeconfigSecretRef)").message("give exactly one of tosca and kubeconfigSecretRef"),
    validation = Rule::new("has(self.tosca) == has(oldSelf.tosca)").message("tosca cannot be exchanged for kubeconfigSecretRef, nor the other way round: create another Cluster"),
    validation = Rule::new("!has(self.cloudRef) || has(self.tosca)").message("cloudRef needs tosca: a registered cluster runs on no cloud of ours"),
    validation = Rule::new("!has(self.adoptInfrastructureId) || has(self.tosca)").message("adoptInfrastructureId needs tosca"),
    validation = Rule::new("has(self.adoptInfrastructureId) == has(oldSelf.adoptInfrastructureId) && (!has(self.adoptInfrastructureId) || self.adoptInfrastructureId == oldSelf.adoptInfrastructureId)").message("adoptInfrastructureId cannot be changed, added or removed: create another Cluster"),
    validation = Rule::new("has(self.kubeconfigSecretName) == has(oldSelf.kubeconfigSecretName) && (!has(self.kubeconfigSecretName) || self.kubeconfigSecretName == oldSelf.kubeconfigSecretName)").message("kubeconfigSecretName cannot be changed, added or removed: create another Cluster")
)]
pub struct ClusterSpec {
    /// Give the TOSCA template. It needs the output kubeconfig. Give exactly one of tosca and kubeconfigSecretRef.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::tosca")]
    pub tosca: Option<Value>,

    /// Register a cluster that exists already: name the Secret with its kubeconfig. Its key is kubeconfig unless another is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::DefaultKey("kubeconfig"))]
    pub kubeconfig_secret_ref: Option<SecretRef>,

    /// Choose the cloud. Without it, another program may choose one by writing status.scheduledTo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud_ref: Option<CloudRef>,

    /// Name the Secret that gets the kubeconfig. Without it, the name is that of the Cluster with -kubeconfig. It cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::NAME_MAX), regex(pattern = schema::DNS_SUBDOMAIN))]
    pub kubeconfig_secret_name: Option<String>,

    /// Take over an infrastructure that exists already: give the id that the Infrastructure Manager gave it. It cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 36), regex(pattern = schema::UUID))]
    pub adopt_infrastructure_id: Option<String>,

    /// Choose what happens to the machines when this object is deleted: Delete deletes them, Orphan leaves them. Defaults to Delete.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,

    /// Choose what happens when the machines are not as they should be: Repair repairs them, Report only says so. Defaults to Repair.
    #[serde(default)]
    pub drift_policy: DriftPolicy,

    /// Give the seconds between two questions to the Infrastructure Manager while something is under way, 1 to 3600. Defaults to 30.
    #[serde(default = "default_poll_interval")]
    #[schemars(range(min = 1, max = 3600))]
    pub poll_interval_seconds: i32,

    /// Give the seconds after which an operation is late. It is tried on in any case.
    #[serde(default)]
    pub timeout_seconds: ClusterTimeouts,

    /// Do nothing to this cluster, not even delete it. Defaults to false.
    #[serde(default)]
    pub paused: bool,
}

impl Default for ClusterSpec {
    fn default() -> Self {
        Self {
            tosca: None,
            kubeconfig_secret_ref: None,
            cloud_ref: None,
            kubeconfig_secret_name: None,
            adopt_infrastructure_id: None,
            deletion_policy: DeletionPolicy::default(),
            drift_policy: DriftPolicy::default(),
            poll_interval_seconds: default_poll_interval(),
            timeout_seconds: ClusterTimeouts::default(),
            paused: false,
        }
    }
}

/// A Cloud or a GlobalCloud.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
pub struct CloudRef {
    /// Choose its kind: Cloud, in the namespace of the Cluster, or GlobalCloud.
    pub kind: CloudKind,

    /// Name it.
    #[schemars(length(min = 1, max = schema::NAME_MAX))]
    pub name: String,
}

/// The kind of a cloud.
#[derive(
    Serialize,
    Deserialize,
    JsonSchema,
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
)]
pub enum CloudKind {
    /// One of the same namespace.
    #[default]
    Cloud,
    /// A cluster-scoped one.
    GlobalCloud,
}

/// What happens to the machines when the Cluster is deleted.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeletionPolicy {
    /// They are deleted.
    #[default]
    Delete,
    /// They stay.
    Orphan,
}

/// What happens when the machines are not as they should be.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DriftPolicy {
    /// They are repaired.
    #[default]
    Repair,
    /// The status says so.
    Report,
}

/// After how many seconds an operation is late.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ClusterTimeouts {
    /// The creation, 5 to 86400. Defaults to 3600.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 5, max = 86_400))]
    pub create: i32,

    /// A change or a repair, 5 to 86400. Defaults to 3600.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 5, max = 86_400))]
    pub update: i32,

    /// The deletion, 5 to 86400. Defaults to 3600.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 5, max = 86_400))]
    pub delete: i32,
}

impl Default for ClusterTimeouts {
    fn default() -> Self {
        Self {
            create: default_timeout(),
            update: default_timeout(),
            delete: default_timeout(),
        }
    }
}

fn default_poll_interval() -> i32 {
    30
}

fn default_timeout() -> i32 {
    3600
}

impl CloudKind {
    /// Returns the kind as it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cloud => "Cloud",
            Self::GlobalCloud => "GlobalCloud",
        }
    }
}

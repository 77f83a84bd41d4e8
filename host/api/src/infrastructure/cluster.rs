//! Cluster: machines from a TOSCA template, or a cluster that exists already.
#![expect(
    unreachable_pub,
    reason = "KubeSchema repeats the struct inside a function"
)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::SecretRef;
use crate::schema;

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
    validation = Rule::new("!has(oldSelf.status) || !has(oldSelf.status.runningOn) || (has(self.spec.cloudRef) == has(oldSelf.spec.cloudRef) && (!has(self.spec.cloudRef) || self.spec.cloudRef == oldSelf.spec.cloudRef))").message("spec.cloudRef cannot be changed while machines run: delete this Cluster and create another").field_path(".spec.cloudRef"),
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
    validation = Rule::new("!has(self.cloudRef) || has(self.tosca)").message("cloudRef needs tosca: a registered cluster runs on no cloud of ours").field_path(".cloudRef"),
    validation = Rule::new("!has(self.adoptInfrastructureId) || has(self.tosca)").message("adoptInfrastructureId needs tosca").field_path(".adoptInfrastructureId"),
    validation = Rule::new("has(self.adoptInfrastructureId) == has(oldSelf.adoptInfrastructureId) && (!has(self.adoptInfrastructureId) || self.adoptInfrastructureId == oldSelf.adoptInfrastructureId)").message("adoptInfrastructureId cannot be changed, added or removed: create another Cluster").field_path(".adoptInfrastructureId"),
    validation = Rule::new("has(self.kubeconfigSecretName) == has(oldSelf.kubeconfigSecretName) && (!has(self.kubeconfigSecretName) || self.kubeconfigSecretName == oldSelf.kubeconfigSecretName)").message("kubeconfigSecretName cannot be changed, added or removed: create another Cluster").field_path(".kubeconfigSecretName")
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
#[serde(rename_all = "camelCase", default)]
pub struct ClusterTimeouts {
    /// The creation, 5 to 86400. Defaults to 3600.
    #[schemars(range(min = 5, max = 86_400))]
    pub create: i32,

    /// A change or a repair, 5 to 86400. Defaults to 3600.
    #[schemars(range(min = 5, max = 86_400))]
    pub update: i32,

    /// The deletion, 5 to 86400. Defaults to 3600.
    #[schemars(range(min = 5, max = 86_400))]
    pub delete: i32,
}

impl Default for ClusterTimeouts {
    fn default() -> Self {
        Self {
            create: 3600,
            update: 3600,
            delete: 3600,
        }
    }
}

fn default_poll_interval() -> i32 {
    30
}

written!(CloudKind: Cloud, GlobalCloud);

/// The state of the cluster, published by the operator.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// The state: PENDING, CREATING, RECONCILING, CONNECTING, ONLINE, DELETING, FAILING_RECONCILIATION or FAILED.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ClusterState>,

    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The cloud that the Cluster is bound to: that of the spec, or one that another program chose by writing it here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_to: Option<CloudRef>,

    /// The cloud that the machines were created on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_on: Option<CloudRef>,

    /// The id that the Infrastructure Manager gave the infrastructure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,

    /// The URL of the Infrastructure Manager that last answered for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_url: Option<String>,

    /// The template of the last request that the Infrastructure Manager accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::preserved_atomic")]
    pub last_applied_tosca: Option<Value>,

    /// Nodes that were removed from the template. Their names cannot be used again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::atomic_list)]
    pub retired_nodes: Option<Vec<String>>,

    /// The operation that is under way, or the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<ClusterOperation>,

    /// What the Infrastructure Manager last called the state of the infrastructure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub im_state: Option<String>,

    /// How many machines there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vms: Option<Machines>,

    /// Conditions: Scheduled, TemplateApplied, InfrastructureReady, KubeconfigReady, Connected, Ready, Stalled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::conditions)]
    pub conditions: Option<Vec<Condition>>,
}

/// The state of a Cluster.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ClusterState {
    /// It is bound to no cloud, or nothing was sent yet.
    Pending,
    /// The machines are created for the first time.
    Creating,
    /// A change or a repair is under way.
    Reconciling,
    /// The machines are configured; the kubeconfig is not stored yet, or the API server does not answer.
    Connecting,
    /// The API server answers.
    Online,
    /// The machines are being deleted.
    Deleting,
    /// Something failed and is tried again.
    FailingReconciliation,
    /// Trying again is useless until something changes.
    Failed,
}

/// An operation on the infrastructure of a Cluster.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ClusterOperation {
    /// What is done: Create, Update, Reconfigure, Start or Delete.
    pub kind: OperationKind,

    /// When it began.
    #[schemars(transform = schema::core)]
    pub started_at: MicroTime,

    /// When the last request that changes something was sent, or was about to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::core)]
    pub last_call_at: Option<MicroTime>,

    /// When the machines were configured, or the last request for it was answered with success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::core)]
    pub finished_at: Option<MicroTime>,

    /// How many requests were sent for it; 0 again once the machines are configured.
    #[serde(default)]
    pub attempts: i32,
}

/// What is done to the infrastructure of a Cluster.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationKind {
    /// It is created.
    Create,
    /// It gets another template, or the same once more.
    Update,
    /// Its machines are configured again.
    Reconfigure,
    /// Its machines are started.
    Start,
    /// It is deleted.
    Delete,
}

/// How many machines a Cluster has.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Machines {
    /// How many there are.
    #[serde(default)]
    pub total: i32,

    /// How many of them are configured.
    #[serde(default)]
    pub configured: i32,
}

written!(
    ClusterState: Pending = "PENDING", Creating = "CREATING", Reconciling = "RECONCILING",
    Connecting = "CONNECTING", Online = "ONLINE", Deleting = "DELETING",
    FailingReconciliation = "FAILING_RECONCILIATION", Failed = "FAILED"
);

written!(OperationKind: Create, Update, Reconfigure, Start, Delete);

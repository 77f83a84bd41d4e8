//! The status of a Cluster.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::CloudRef;
use crate::schema;

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

impl ClusterState {
    /// All states.
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::Creating,
        Self::Reconciling,
        Self::Connecting,
        Self::Online,
        Self::Deleting,
        Self::FailingReconciliation,
        Self::Failed,
    ];

    /// Returns the state as it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Creating => "CREATING",
            Self::Reconciling => "RECONCILING",
            Self::Connecting => "CONNECTING",
            Self::Online => "ONLINE",
            Self::Deleting => "DELETING",
            Self::FailingReconciliation => "FAILING_RECONCILIATION",
            Self::Failed => "FAILED",
        }
    }
}

impl OperationKind {
    /// Returns the kind as it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "Create",
            Self::Update => "Update",
            Self::Reconfigure => "Reconfigure",
            Self::Start => "Start",
            Self::Delete => "Delete",
        }
    }
}

impl fmt::Display for ClusterState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

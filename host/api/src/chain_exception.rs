//! ChainException: pods that a plugin of the chain lets pass for a while.
#![expect(
    unreachable_pub,
    reason = "KubeSchema repeats the struct inside a function"
)]
#![expect(clippy::duplicated_attributes, reason = "columns are of equal types")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use kube::core::ApiResource;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// A ChainException as the API server stores it.
pub type ChainExceptionObject = kube::core::Object<ChainExceptionSpec, ChainExceptionStatus>;

/// Which pods of its namespace a plugin of the chain lets pass, why, and until when.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "chain.podloom.dev",
    version = "v1alpha1",
    kind = "ChainException",
    plural = "chainexceptions",
    shortname = "cex",
    category = "podloom",
    namespaced,
    status = "ChainExceptionStatus",
    derive = "PartialEq",
    doc = "Which pods of this namespace a plugin of the chain lets pass, why, and until when. It holds only for plugins whose entry in chain.yaml allows exceptions that are as long.",
    printcolumn(name = "Plugins", type_ = "string", json_path = ".spec.plugins"),
    printcolumn(name = "Effect", type_ = "string", json_path = ".spec.effect"),
    printcolumn(name = "Until", type_ = "string", json_path = ".spec.until"),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".spec.reason",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ChainExceptionSpec {
    /// Choose the pods.
    pub pods: ExceptedPods,

    /// Name 1 to 16 plugins, as the chain names them.
    #[schemars(length(min = 1, max = 16), inner(length(min = 1, max = 63)))]
    pub plugins: Vec<String>,

    /// Choose what these plugins do with the pods: with Warn they run, and a denial becomes a warning; with Skip they do not run.
    /// Defaults to Warn.
    #[serde(default)]
    pub effect: ExceptionEffect,

    /// Name the webhooks whose chain it is about, as their option --webhook-name does. Defaults to podloom-webhook.
    #[serde(default = "default_webhook")]
    #[schemars(length(min = 1, max = 253))]
    pub webhook: String,

    /// Say why, in 1 to 1024 characters, for those who read this later.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: String,

    /// Give the time at which it ends, such as 2027-01-31T12:00:00Z. From the creation of this object until then must be no longer than
    /// the chain allows for the plugin: `longestException` in chain.yaml.
    pub until: Time,
}

fn default_webhook() -> String {
    "podloom-webhook".to_owned()
}

/// Pods, by their labels or their owner.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("has(self.selector) != has(self.owner)", "give either selector or owner")
)]
pub struct ExceptedPods {
    /// Select pods by the labels that they have before the chain; an empty selector selects all pods of the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::core, transform = schema::bounded)]
    pub selector: Option<LabelSelector>,

    /// Name what the pods belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<PodOwner>,
}

/// What pods belong to: their controller; the Deployment of a ReplicaSet; a pod without a controller itself.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct PodOwner {
    /// Give its kind, such as Deployment or StatefulSet.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// Give its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// What plugins do with the pods of a ChainException.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExceptionEffect {
    /// They run, and a denial becomes a warning.
    #[default]
    Warn,
    /// They do not run.
    Skip,
}

/// What the operator says of a ChainException.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ChainExceptionStatus {
    /// The generation of the spec that this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready says whether it holds: Holds, or else Ended, NotAllowed, NoPlugin or Invalid.
    #[schemars(transform = schema::conditions)]
    pub conditions: Vec<Condition>,
}

impl ChainException {
    /// Returns how the API server serves this kind.
    ///
    /// ```
    /// assert_eq!(podloom_api::ChainException::resource().plural, "chainexceptions");
    /// ```
    pub fn resource() -> ApiResource {
        ApiResource::erase::<Self>(&())
    }
}

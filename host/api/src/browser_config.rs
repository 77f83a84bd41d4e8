//! BrowserConfig: what the pods of a namespace's Browsers look like.
#![expect(clippy::duplicated_attributes, reason = "columns are of equal types")]

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::{
    Affinity, ContainerPort, EnvVar, HostAlias, LocalObjectReference, PodDNSConfig,
    PodSecurityContext, ResourceRequirements, SecurityContext, Toleration, Volume, VolumeMount,
};
use k8s_openapi::api::networking::v1::{NetworkPolicyEgressRule, NetworkPolicyIngressRule};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{duration, schema};

/// A BrowserConfig whose API group is known at run time.
pub type BrowserConfigObject = kube::core::Object<BrowserConfigSpec, BrowserConfigStatus>;

/// The versions of one browser, by name.
pub type Versions = BTreeMap<String, VersionConfig>;

/// The pools of one browser, by version.
pub type WarmPools = BTreeMap<String, WarmPool>;

/// Which browsers this namespace has, and what their pods look like.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "selenosis.io",
    version = "v1",
    kind = "BrowserConfig",
    plural = "browserconfigs",
    shortname = "brwcfg",
    category = "selenosis",
    namespaced,
    status = "BrowserConfigStatus",
    derive = "PartialEq",
    doc = "What the pods of this namespace's Browsers look like: a template, and the versions of each browser.",
    printcolumn(
        name = "Accepted",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Accepted\")].reason"
    ),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.version"),
    printcolumn(name = "Warm", type_ = "integer", json_path = ".status.warm.ready"),
    printcolumn(name = "Wanted", type_ = "integer", json_path = ".status.warm.wanted"),
    printcolumn(
        name = "LastUpdated",
        type_ = "date",
        json_path = ".status.lastUpdated"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::bounded)]
pub struct BrowserConfigSpec {
    /// Set what the pods of all browsers and versions have in common.
    /// A version's own settings are merged over these: lists and maps entry by entry, everything else as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::sidecars_not_empty)]
    pub template: Option<PodSettings>,

    /// Define each browser by name, and each of its versions by name with at least an image.
    /// Names have at most 253 characters; there are at most 1,024 browsers, and 1,024 versions of each, as in every list and map.
    /// A Browser finds its entry by the exact names first, then by ignoring case; names that differ only in case are invalid.
    #[schemars(transform = schema::browsers)]
    pub browsers: BTreeMap<String, Versions>,

    /// Limit what a Browser may ask for: in its annotation selenosis.io/options, and by its own labels and annotations, which its
    /// pod gets too. Without this field it may ask for everything.
    /// With it, anything that is not listed is rejected: the Browser fails with the reason InvalidSelenosisOptions, and the
    /// message names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_options: Option<SessionOptions>,

    /// Keep pods ready before anybody asks for them: by browser and version, with the same names as in browsers. A Browser takes such a
    /// pod if its own would be the same, and then runs within milliseconds. Defaults to none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::warm)]
    pub warm: Option<BTreeMap<String, WarmPools>>,

    /// Protect each session by a NetworkPolicy of its own, which selects its pod alone and is there before the pod is. Write what the spec of
    /// a NetworkPolicy has, without podSelector. Pods that wait are behind one that lets nothing in. Defaults to none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_policy: Option<SessionNetworkPolicy>,
}

/// The NetworkPolicy of a session.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SessionNetworkPolicy {
    /// Choose what is restricted: Ingress, Egress or both. Defaults to Ingress, and Egress if there are rules for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_types: Option<Vec<PolicyType>>,

    /// Allow connections to the pod. Defaults to none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::network_rules)]
    pub ingress: Option<Vec<NetworkPolicyIngressRule>>,

    /// Allow connections from the pod. Defaults to none if Egress is restricted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::network_rules)]
    pub egress: Option<Vec<NetworkPolicyEgressRule>>,
}

impl SessionNetworkPolicy {
    /// Returns whether connections from the pod are restricted.
    #[must_use]
    pub fn restricts_egress(&self) -> bool {
        match &self.policy_types {
            Some(types) => types.contains(&PolicyType::Egress),
            None => self.egress.is_some(),
        }
    }
}

/// What a NetworkPolicy restricts.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[schemars(inline)]
pub enum PolicyType {
    /// Connections to the pod.
    Ingress,
    /// Connections from the pod.
    Egress,
}

impl fmt::Display for PolicyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ingress => "Ingress",
            Self::Egress => "Egress",
        })
    }
}

/// How many pods of one version wait for a session.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct WarmPool {
    /// Keep at least this many pods ready, also if nobody comes. Defaults to 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1000))]
    pub min: i32,

    /// Keep at most this many pods ready. In between, as many as the sessions that began within ten seconds, at the busiest time of the
    /// last five minutes.
    #[schemars(range(min = 1, max = 1000))]
    pub max: i32,

    /// Replace a pod that has waited this long, such as 10m or 8h; at least 30s. Defaults to 4m.
    /// Choose less than the time after which a container of the pod ends by itself if no session comes: seleniferous does, after its
    /// SESSION_CREATE_TIMEOUT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = duration::CHARACTERS), regex(pattern = duration::PATTERN))]
    pub max_age: Option<String>,

    /// Start at most this many pods at the same time. Defaults to 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub max_starting: Option<i32>,

    /// Request and limit other resources for the browser container while the pod waits, instead of those that the session has. Defaults
    /// to the same.
    /// A session that takes the pod has it resized in place. Write only requests and limits of cpu and memory that the session has too;
    /// the QoS class must be the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::core)]
    pub resources: Option<ResourceRequirements>,
}

/// How many pods wait for sessions.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct WarmStatus {
    /// How many pods are ready for a session.
    pub ready: i32,

    /// How many there should be for now.
    pub wanted: i32,

    /// Why there are fewer, if something is in the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What a Browser may ask for in its annotation `selenosis.io/options`, and which labels and annotations it may have itself,
/// since its pod gets them. Anything that is not listed is rejected.
///
/// In a pattern, `*` stands for any characters.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SessionOptions {
    /// Allow labels in the options and on the Browser, by patterns of their keys such as team or example.com/*. Defaults to none.
    /// The three labels that name the Browser, selenosis.io/browser and so on, need not be listed.
    /// Plugins, network policies and services choose pods by their labels, so allow no label that they look at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::patterns)]
    pub labels: Option<Vec<String>>,

    /// Allow annotations on the Browser, by patterns of their keys such as example.com/*. Defaults to none.
    /// The options themselves and what kubectl apply leaves go to no pod and need not be listed; list what other tools add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::patterns)]
    pub annotations: Option<Vec<String>>,

    /// Allow environment variables by container, by patterns of their names such as LANG or APP_*. Defaults to none.
    /// Some variables choose what a container runs, LD_PRELOAD for one, so allow no pattern that matches those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::patterns_by_container)]
    pub env: Option<BTreeMap<String, Vec<String>>>,
}

/// Whether the configuration is accepted, and its hash; published by the operator.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct BrowserConfigStatus {
    /// A hash of the merged configuration, 16 hex digits. It changes when any pod would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,

    /// When that hash last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::core)]
    pub last_updated: Option<Time>,

    /// The condition Accepted, with the reason Valid, InvalidTemplate or DuplicateBrowser; and Ready, Reconciling and Stalled, which say the
    /// same by the rules of kstatus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::conditions)]
    pub conditions: Option<Vec<Condition>>,

    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// How many pods wait for sessions; absent if none should.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm: Option<WarmStatus>,
}

// What a BrowserConfig can set for a pod, for all browsers or for one version.

/// One version of a browser: its image, and what differs from the template.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct VersionConfig {
    /// Name the browser container's image.
    #[schemars(length(min = 1))]
    pub image: String,

    /// The same settings as in the template.
    #[serde(flatten)]
    pub settings: PodSettings,
}

/// Settings of a pod and its browser container. Each is optional.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PodSettings {
    /// Label the pod. Merged by key; the labels that name the Browser cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,

    /// Annotate the pod. Merged by key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,

    /// Set environment variables of the browser container. Merged by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::core)]
    pub env: Option<Vec<EnvVar>>,

    /// Request and limit the browser container's resources, such as cpu in cores and memory in bytes. Defaults to none.
    /// A version's replace the template's as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::core)]
    pub resources: Option<ResourceRequirements>,

    /// Choose when to pull the browser's image: Always, IfNotPresent or Never. Defaults to Always for the tag latest, else to
    /// IfNotPresent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<ImagePullPolicy>,

    /// Add volumes to the pod. Merged by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::core)]
    pub volumes: Option<Vec<Volume>>,

    /// Mount volumes into the browser container. Merged by mount path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::core)]
    pub volume_mounts: Option<Vec<VolumeMount>>,

    /// Choose nodes by label. Merged by key. Defaults to any node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,

    /// Choose nodes by affinity to nodes and pods. A version's replaces the template's as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::core)]
    pub affinity: Option<Affinity>,

    /// Tolerate taints of nodes. A version's are added to the template's; equal entries count once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::core)]
    pub tolerations: Option<Vec<Toleration>>,

    /// Add entries to the pod's /etc/hosts. Merged by IP address: host names of both are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::core)]
    pub host_aliases: Option<Vec<HostAlias>>,

    /// Run containers before the browser starts, or beside it if their restart policy is Always. Merged by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_containers: Option<Vec<SidecarContainer>>,

    /// Run containers beside the browser. Merged by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sidecars: Option<Vec<SidecarContainer>>,

    /// Run the browser container privileged. Defaults to false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub privileged: Option<bool>,

    /// Name secrets to pull images with. Merged by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::core)]
    pub image_pull_secrets: Option<Vec<LocalObjectReference>>,

    /// Configure the pod's name resolution, on top of the cluster's DNS. A version's replaces the template's as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::core)]
    pub dns_config: Option<PodDNSConfig>,

    /// Secure the pod: users, groups and profiles of all its containers. A version's replaces the template's as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::core)]
    pub security_context: Option<PodSecurityContext>,

    /// Start the browser container in this directory. Defaults to the image's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,

    /// Replace the entry point of the browser's image. Defaults to the image's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,

    /// Replace the arguments of the browser's image. Defaults to the image's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
}

/// A container that runs before the browser or beside it.
///
/// An entry of a version is merged over the template's entry of the same name, field by field.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SidecarContainer {
    /// Name the container. The name must be unique in the pod, and browser is reserved.
    #[schemars(length(min = 1, max = schema::NAME_MAX))]
    pub name: String,

    /// Name the container's image.
    #[schemars(length(min = 1))]
    pub image: String,

    /// Replace the image's entry point. Defaults to the image's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,

    /// Replace the image's arguments. Defaults to the image's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,

    /// Start the container in this directory. Defaults to the image's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,

    /// Expose ports. Merged by container port and protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::core)]
    pub ports: Option<Vec<ContainerPort>>,

    /// Set environment variables. Merged by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::core)]
    pub env: Option<Vec<EnvVar>>,

    /// Mount volumes of the pod. Merged by mount path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::core)]
    pub volume_mounts: Option<Vec<VolumeMount>>,

    /// Choose when to pull the image: Always, IfNotPresent or Never. Defaults to Always for the tag latest, else to IfNotPresent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<ImagePullPolicy>,

    /// Request and limit the container's resources, such as cpu in cores and memory in bytes. Defaults to none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::core)]
    pub resources: Option<ResourceRequirements>,

    /// Secure the container: user, capabilities and privileges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::core)]
    pub security_context: Option<SecurityContext>,

    /// Set Always to keep an init container running beside the browser. Defaults to running it once. Not valid for sidecars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<ContainerRestartPolicy>,
}

// A CRD describes a field of an enum by the enum's own documentation, so that is written for `kubectl explain`.
/// Choose when to pull the image: Always, IfNotPresent or Never. Defaults to Always for the tag latest, else to IfNotPresent.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImagePullPolicy {
    /// Each time a container starts.
    Always,
    /// When the node does not have it yet.
    IfNotPresent,
    /// Never; the node must have it.
    Never,
}

written!(ImagePullPolicy: Always, IfNotPresent, Never);

/// Set Always to keep an init container running beside the browser. Defaults to running it once. Not valid for sidecars.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerRestartPolicy {
    /// Starts before the browser and is restarted as long as the pod lives.
    Always,
}

written!(ContainerRestartPolicy: Always);

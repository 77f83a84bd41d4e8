//! TunnelClass: what the pods of tunnels look like.
#![expect(
    unreachable_pub,
    reason = "KubeSchema repeats the struct inside a function"
)]
#![expect(clippy::duplicated_attributes, reason = "columns are of equal types")]

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::{ApiResource, ObjectMeta};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{names, schema};

/// A TunnelClass as the API server stores it.
pub type TunnelClassObject = kube::core::Object<TunnelClassSpec, TunnelClassStatus>;

/// What the pods of tunnels look like.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "portal.gosuda.org",
    version = "v1alpha1",
    kind = "TunnelClass",
    plural = "tunnelclasses",
    shortname = "tc",
    category = "portal",
    status = "TunnelClassStatus",
    derive = "PartialEq",
    doc = "What the pods of tunnels look like. It names their image, so it is an administrator's object.",
    printcolumn(name = "Size", type_ = "string", json_path = ".spec.size"),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(
        name = "Default",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Default\")].reason"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct TunnelClassSpec {
    /// Give the number of pods of each tunnel, 1 to 100.
    /// A relay serves one pod per hostname, so more than one pod is no high availability.
    #[schemars(range(min = 1, max = 100))]
    pub replicas: i32,

    /// Choose CPU and memory of each pod: small (100m and 128Mi, at most 500m and 512Mi), medium (250m and 256Mi, at most 1 and 1Gi)
    /// or large (500m and 512Mi, at most 2 and 2Gi).
    pub size: TunnelSize,

    /// Choose nodes by their labels, as in a pod's nodeSelector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::node_selector)]
    pub node_selector: Option<BTreeMap<String, String>>,

    /// Tolerate taints of nodes, as in a pod's tolerations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), transform = schema::core, transform = schema::atomic_list)]
    pub tolerations: Option<Vec<Toleration>>,

    /// Choose how pods are replaced: Replace stops an old pod before a new one starts, Surge starts the new one first. Defaults to
    /// Replace: a relay serves one pod per hostname, so a second one fights the first.
    #[serde(default)]
    pub rollout: TunnelRollout,

    /// Choose another image of the tunnel client. Defaults to the one that the operator was started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<TunnelClient>,
}

/// CPU and memory of a tunnel's pod.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum TunnelSize {
    /// 100m CPU and 128Mi, at most 500m and 512Mi.
    #[default]
    Small,
    /// 250m CPU and 256Mi, at most 1 and 1Gi.
    Medium,
    /// 500m CPU and 512Mi, at most 2 and 2Gi.
    Large,
}

/// How a tunnel's pods are replaced.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TunnelRollout {
    /// An old pod stops before a new one starts.
    #[default]
    Replace,
    /// A new pod starts before an old one stops.
    Surge,
}

/// The image of the tunnel client.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct TunnelClient {
    /// Name the image.
    #[schemars(length(min = 1, max = 512))]
    pub image: String,

    /// Give the version of the client in this image, such as 2.4.3. It decides which flags the client understands.
    #[schemars(
        length(max = 32),
        regex(pattern = r"^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$")
    )]
    pub version: String,
}

/// Whether the class is valid and whether it is the default, published by the operator.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct TunnelClassStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Conditions: Valid, Default, ReplicasShareHostname.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::conditions)]
    pub conditions: Option<Vec<Condition>>,
}

impl TunnelClass {
    /// Returns what a dynamic client needs to know of the kind.
    pub fn resource() -> ApiResource {
        ApiResource::erase::<Self>(&())
    }
}

/// Returns whether a TunnelClass asks to be the default: only by its annotation with the exact value `true`, never by its name.
///
/// ```
/// use podloom_api::{TunnelClass, TunnelClassSpec, asks_to_be_default};
///
/// let class = TunnelClass::new("default", TunnelClassSpec::default());
/// assert!(!asks_to_be_default(&class.metadata));
/// ```
pub fn asks_to_be_default(class: &ObjectMeta) -> bool {
    let annotations = class.annotations.iter().flatten();
    annotations
        .into_iter()
        .any(|(key, value)| key == names::portal::annotation::IS_DEFAULT_CLASS && value == "true")
}

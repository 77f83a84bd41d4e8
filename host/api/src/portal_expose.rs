//! PortalExpose: a Service that relays expose to the Internet, through the pods of a tunnel.
#![expect(
    unreachable_pub,
    reason = "KubeSchema repeats the struct inside a function"
)]
#![expect(clippy::duplicated_attributes, reason = "columns are of equal types")]

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::core::{ApiResource, ObjectMeta};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{names, schema};

/// A PortalExpose as the API server stores it.
pub type PortalExposeObject = kube::core::Object<PortalExposeSpec, PortalExposeStatus>;

/// Which Service is exposed, and through which relays.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "portal.gosuda.org",
    version = "v1alpha1",
    kind = "PortalExpose",
    plural = "portalexposes",
    shortname = "pe",
    category = "portal",
    namespaced,
    status = "PortalExposeStatus",
    derive = "PartialEq",
    doc = "A Service of this namespace, exposed to the Internet through relays.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "URL", type_ = "string", json_path = ".status.publicURL"),
    printcolumn(
        name = "Ready",
        type_ = "integer",
        json_path = ".status.tunnelPods.ready"
    ),
    printcolumn(
        name = "Total",
        type_ = "integer",
        json_path = ".status.tunnelPods.total"
    ),
    printcolumn(name = "Relays", type_ = "string", json_path = ".status.relay.summary"),
    printcolumn(
        name = "Class",
        type_ = "string",
        json_path = ".status.tunnelClassName"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Available\")].message",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct PortalExposeSpec {
    /// Name the application and the Service that it is behind.
    pub app: PortalApp,

    /// Name the relays that expose it.
    pub relay: PortalRelays,

    /// Name the TunnelClass of the tunnel's pods.
    /// Without a name, or with an empty one, the class with the annotation portal.gosuda.org/is-default-class: "true" is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::NAME_MAX))]
    pub tunnel_class_name: Option<String>,

    /// Choose what happens to the Secret with the hostname's key when this object is deleted: Retain keeps it for the next
    /// PortalExpose of this name, Delete deletes it. Defaults to Retain: relays reserve the hostname for its key for days.
    #[serde(default)]
    pub identity_policy: IdentityPolicy,
}

/// The application that is exposed.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PortalApp {
    /// Name the application: the first part of its public hostname.
    #[schemars(length(min = 1, max = 63), regex(pattern = schema::DNS_LABEL))]
    pub name: String,

    /// Name the Service that receives the requests.
    pub service: PortalService,
}

/// A Service of the same namespace.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PortalService {
    /// Name the Service; it is in the namespace of this object.
    #[schemars(length(min = 1, max = 63), regex(pattern = schema::DNS_LABEL))]
    pub name: String,

    /// Give the port of the Service, 1 to 65535.
    #[schemars(transform = schema::port)]
    pub port: i32,
}

/// The relays that expose the application.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PortalRelays {
    /// List 1 to 16 relays, each with a name and a URL of its own. The tunnel connects to all of them; the public URL is that of the first.
    #[schemars(length(min = 1, max = 16), transform = schema::atomic_list)]
    #[x_kube(
        validation = Rule::new("self.all(t, self.exists_one(u, u.name == t.name))").message("names of targets must be unique"),
        validation = Rule::new("self.all(t, self.exists_one(u, u.url == t.url))").message("URLs of targets must be unique")
    )]
    pub targets: Vec<RelayTarget>,
}

/// One relay.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RelayTarget {
    /// Name the relay; the status uses this name.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,

    /// Give the relay's URL, such as wss://relay.example.com/relay: wss or https, a hostname, and if needed a port and a path.
    /// The path is ignored, and so is the scheme: the tunnel always uses https.
    #[schemars(length(max = 320), regex(pattern = schema::RELAY_URL))]
    pub url: String,
}

/// What happens to the Secret with the hostname's key when the PortalExpose is deleted.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdentityPolicy {
    /// It stays, for the next PortalExpose of that name.
    #[default]
    Retain,
    /// It is deleted too.
    Delete,
}

/// The state of the tunnel, published by the operator.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PortalExposeStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The phase: Pending, Ready, Degraded or Failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<PortalPhase>,

    /// The public URL of the application, at the first relay.
    #[serde(rename = "publicURL", default, skip_serializing_if = "Option::is_none")]
    pub public_url: Option<String>,

    /// The TunnelClass that is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tunnel_class_name: Option<String>,

    /// How many of the tunnel's pods are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tunnel_pods: Option<TunnelPods>,

    /// The state of the relays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<RelayStates>,

    /// The tunnel's Deployment as the operator last wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<AppliedTunnel>,

    /// Conditions: Available, Progressing, TunnelDeploymentReady, RelayConnected, ServiceExists, TunnelClassExists, SpecValid,
    /// HostnameUnique, MutatorsApplied; and Ready, Reconciling and Stalled, by the rules of kstatus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::conditions)]
    pub conditions: Option<Vec<Condition>>,
}

/// The phase of a PortalExpose: Pending, Ready, Degraded or Failed.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PortalPhase {
    /// The tunnel starts: no pod is ready and no relay connected yet.
    Pending,
    /// All pods are ready, and all relays connected.
    Ready,
    /// Some pods are not ready, or some relays not connected, or the tunnel is being updated.
    Degraded,
    /// Nothing is reachable, or the Service is missing.
    Failed,
}

/// How many of the tunnel's pods are ready.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct TunnelPods {
    /// How many are ready.
    #[serde(default)]
    pub ready: i32,

    /// How many there should be.
    #[serde(default)]
    pub total: i32,
}

/// The state of the relays.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RelayStates {
    /// How many relays are connected, such as 2/3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,

    /// The state of each relay, in the order of the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::atomic_list)]
    pub connected: Option<Vec<RelayState>>,
}

/// The state of one relay.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RelayState {
    /// The name of the target.
    pub name: String,

    /// Whether the relay serves the hostname: Connected, Disconnected or Unknown.
    pub status: RelayConnection,

    /// Since when the relay is connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::core)]
    pub connected_at: Option<Time>,

    /// What the last look at the relay found wrong: a word such as NoLease, and a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,

    /// The public URL of the application at this relay.
    #[serde(rename = "publicURL", default, skip_serializing_if = "Option::is_none")]
    pub public_url: Option<String>,
}

/// Whether a relay serves the hostname.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RelayConnection {
    /// It does.
    Connected,
    /// It does not.
    Disconnected,
    /// Nobody knows yet.
    #[default]
    Unknown,
}

/// The tunnel's Deployment as the operator last wrote it.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct AppliedTunnel {
    /// The generation of the Deployment after the write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,

    /// The hash of the pod template after the plugins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_hash: Option<String>,

    /// The digest of the plugin chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain_digest: Option<String>,
}

impl PortalExposeSpec {
    /// Returns the name of the TunnelClass, or none if the default class is used.
    ///
    /// ```
    /// use podloom_api::PortalExposeSpec;
    ///
    /// let mut spec = PortalExposeSpec::default();
    /// spec.tunnel_class_name = Some(String::new());
    /// assert_eq!(spec.class_name(), None);
    /// ```
    pub fn class_name(&self) -> Option<&str> {
        self.tunnel_class_name
            .as_deref()
            .filter(|name| !name.is_empty())
    }
}

impl PortalExpose {
    /// Returns what a dynamic client needs to know of the kind.
    pub fn resource() -> ApiResource {
        ApiResource::erase::<Self>(&())
    }
}

written!(PortalPhase: Pending, Ready, Degraded, Failed);

written!(RelayConnection: Connected, Disconnected, Unknown);

// TunnelClass: what the pods of tunnels look like.

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

    /// Conditions: Valid, Default, ReplicasShareHostname; and Ready, Reconciling and Stalled, by the rules of kstatus.
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

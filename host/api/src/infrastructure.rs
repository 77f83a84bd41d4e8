//! Clusters of machines that an Infrastructure Manager (IM) creates, and the clouds and managers that they need.
//!
//! GlobalCloud and GlobalInfrastructureProvider have the types of [`Cloud`] and [`InfrastructureProvider`]; they are cluster-scoped.
#![expect(
    unreachable_pub,
    reason = "KubeSchema repeats the struct inside a function"
)]
#![expect(clippy::duplicated_attributes, reason = "columns are of equal types")]

mod cluster;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;
pub use cluster::{
    CloudKind, CloudRef, Cluster, ClusterObject, ClusterOperation, ClusterSpec, ClusterState,
    ClusterStatus, ClusterTimeouts, DeletionPolicy, DriftPolicy, Machines, OperationKind,
};

/// A Cloud or a GlobalCloud, as the API server stores it.
pub type CloudObject = kube::core::Object<CloudSpec, CloudStatus>;

/// Which cloud machines run on, its credentials, and the Infrastructure Manager that talks to it.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "infrastructure.podloom.dev",
    version = "v1alpha1",
    kind = "Cloud",
    plural = "clouds",
    category = "podloom",
    namespaced,
    status = "CloudStatus",
    derive = "PartialEq",
    doc = "A cloud that the machines of Clusters run on.",
    printcolumn(
        name = "Provider",
        type_ = "string",
        json_path = ".spec.providerRef.name"
    ),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Clusters", type_ = "integer", json_path = ".status.clusters")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.openstack) != has(self.generic)").message("give exactly one of openstack and generic"),
    validation = Rule::new("has(self.openstack) == has(oldSelf.openstack)").message("openstack cannot be exchanged for generic, nor the other way round: machines would be lost; create another cloud")
)]
pub struct CloudSpec {
    /// Name the Infrastructure Manager that talks to this cloud.
    pub provider_ref: ProviderRef,

    /// Describe an OpenStack cloud. Give exactly one of openstack and generic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openstack: Option<OpenStackCloud>,

    /// Describe any other cloud that the Infrastructure Manager knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generic: Option<GenericCloud>,
}

/// An InfrastructureProvider or a GlobalInfrastructureProvider.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
pub struct ProviderRef {
    /// Choose its kind: InfrastructureProvider, in the namespace of this object, or GlobalInfrastructureProvider.
    pub kind: ProviderKind,

    /// Name it.
    #[schemars(length(min = 1, max = schema::NAME_MAX))]
    pub name: String,
}

/// The kind of a provider.
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
pub enum ProviderKind {
    /// One of the same namespace.
    #[default]
    InfrastructureProvider,
    /// A cluster-scoped one.
    GlobalInfrastructureProvider,
}

/// An OpenStack cloud.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct OpenStackCloud {
    /// Give the URL of its identity service, such as `https://keystone.example.com:5000`. It cannot be changed.
    #[schemars(length(max = 2048), regex(pattern = schema::IM_URL))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("url cannot be changed: machines would be lost; create another cloud"))]
    pub url: String,

    /// Name the region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub region: Option<String>,

    /// Log in with a password or with an application credential.
    pub auth: OpenStackAuth,
}

/// How to log in to an OpenStack cloud.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.password) != has(self.applicationCredential)").message("give exactly one of password and applicationCredential"),
    validation = Rule::new("has(self.password) == has(oldSelf.password)").message("password cannot be exchanged for applicationCredential, nor the other way round: machines would be lost; create another cloud")
)]
pub struct OpenStackAuth {
    /// Log in with a user name and a password. Give exactly one of password and applicationCredential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<OpenStackPassword>,

    /// Log in with an application credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application_credential: Option<ApplicationCredential>,
}

/// A user of an OpenStack cloud.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct OpenStackPassword {
    /// Give the user name.
    #[schemars(length(min = 1, max = 255))]
    pub username: String,

    /// Name the Secret with the password. Its key is password unless another is given.
    #[schemars(transform = schema::DefaultKey("password"))]
    pub password_secret_ref: SecretRef,

    /// Name the domain of the user. Defaults to Default.
    #[serde(default = "default_domain_name")]
    #[schemars(length(min = 1, max = 255))]
    pub user_domain_name: String,

    /// Name the project. It cannot be changed.
    #[schemars(length(min = 1, max = 255))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("projectName cannot be changed: machines would be lost; create another cloud"))]
    pub project_name: String,

    /// Give the id of the project's domain. Defaults to default.
    #[serde(default = "default_domain_id")]
    #[schemars(length(min = 1, max = 255))]
    pub project_domain_id: String,

    /// Choose the version of the identity API: 3 or 2. Defaults to 3. It cannot be changed.
    #[serde(default)]
    #[x_kube(validation = Rule::new("self == oldSelf").message("identityVersion cannot be changed: machines would be lost; create another cloud"))]
    pub identity_version: IdentityVersion,
}

/// A version of OpenStack's identity API.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdentityVersion {
    /// Version 2.
    #[serde(rename = "2")]
    V2,
    /// Version 3.
    #[default]
    #[serde(rename = "3")]
    V3,
}

/// An application credential of an OpenStack cloud.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationCredential {
    /// Give its id.
    #[schemars(length(min = 1, max = 255))]
    pub id: String,

    /// Name the Secret with its secret. Its key is secret unless another is given.
    #[schemars(transform = schema::DefaultKey("secret"))]
    pub secret_ref: SecretRef,

    /// Name the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub project_name: Option<String>,
}

/// Any cloud that the Infrastructure Manager knows.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.host) == has(oldSelf.host) && (!has(self.host) || self.host == oldSelf.host)").message("host cannot be changed, added or removed: machines would be lost; create another cloud").field_path(".host"),
    validation = Rule::new("!has(self.parameters) || !has(self.secretParameters) || self.parameters.all(n, !(n in self.secretParameters))").message("a name can be in parameters or in secretParameters, not in both").field_path(".secretParameters")
)]
pub struct GenericCloud {
    /// Give the type, as the Infrastructure Manager calls it, such as OpenNebula or Dummy. It cannot be changed.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(
        validation = Rule::new("!(self in ['InfrastructureManager', 'Vault', 'VMRC', 'EGIIS'])").message("this type is no cloud"),
        validation = Rule::new("self == oldSelf").message("type cannot be changed: machines would be lost; create another cloud")
    )]
    pub type_: String,

    /// Give its host, if this type needs one. It cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub host: Option<String>,

    /// Give its other parameters, at most 32.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::parameters)]
    pub parameters: Option<BTreeMap<String, String>>,

    /// Name the Secrets with parameters that nobody may read, at most 16. The key is value unless another is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::secret_parameters)]
    pub secret_parameters: Option<BTreeMap<String, SecretRef>>,
}

/// What is known of a cloud, published by the operator.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct CloudStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Whether Clusters can be created here: ONLINE or OFFLINE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<CloudState>,

    /// How many Clusters use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusters: Option<i32>,

    /// Conditions: Resolved, Reachable, Ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::conditions)]
    pub conditions: Option<Vec<Condition>>,
}

/// Whether Clusters can be created on a cloud.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[serde(rename_all = "UPPERCASE")]
pub enum CloudState {
    /// They can.
    Online,
    /// They cannot.
    Offline,
}

fn default_domain_name() -> String {
    "Default".to_owned()
}

fn default_domain_id() -> String {
    "default".to_owned()
}

written!(CloudState: Online = "ONLINE", Offline = "OFFLINE");

written!(ProviderKind: InfrastructureProvider, GlobalInfrastructureProvider);

written!(IdentityVersion: V2 = "2", V3 = "3");

/// An InfrastructureProvider or a GlobalInfrastructureProvider, as the API server stores it.
pub type InfrastructureProviderObject =
    kube::core::Object<InfrastructureProviderSpec, InfrastructureProviderStatus>;

/// Where an Infrastructure Manager is, and the account there.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "infrastructure.podloom.dev",
    version = "v1alpha1",
    kind = "InfrastructureProvider",
    plural = "infrastructureproviders",
    shortname = "infra",
    category = "podloom",
    namespaced,
    status = "InfrastructureProviderStatus",
    derive = "PartialEq",
    doc = "An Infrastructure Manager, which creates the machines of Clusters, and the account there.",
    printcolumn(name = "URL", type_ = "string", json_path = ".spec.im.url"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.version"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct InfrastructureProviderSpec {
    /// Describe the Infrastructure Manager.
    pub im: ImSpec,
}

/// An Infrastructure Manager and the account there.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.basic) != has(self.tokenSecretRef)").message("give exactly one of basic and tokenSecretRef"),
    validation = Rule::new("has(self.basic) == has(oldSelf.basic)").message("basic cannot be exchanged for tokenSecretRef, nor the other way round: infrastructures belong to the account; create another provider"),
    validation = Rule::new("!has(self.basic) || !has(oldSelf.basic) || self.basic.username == oldSelf.basic.username").message("basic.username cannot be changed: infrastructures belong to the account; create another provider").field_path(".basic.username")
)]
pub struct ImSpec {
    /// Give the URL of its REST API, such as `https://im.example.com:8800`.
    #[schemars(length(max = 2048), regex(pattern = schema::IM_URL))]
    pub url: String,

    /// Log in with a user name and a password. Give exactly one of basic and tokenSecretRef.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basic: Option<ImAccount>,

    /// Log in with a token: name the Secret that has it. Its key is token unless another is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::DefaultKey("token"))]
    pub token_secret_ref: Option<SecretRef>,

    /// Give the certificate authorities to trust, in PEM. Without it, the public ones are trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65_536))]
    pub ca_bundle: Option<String>,

    /// Do not check the certificate. Anybody on the way can then read all credentials. Defaults to false.
    #[serde(default)]
    pub insecure_skip_tls_verify: bool,

    /// Allow templates to name files of the Infrastructure Manager's own machine. It reads them, and may show what is in them.
    /// Defaults to false.
    #[serde(default)]
    pub allow_file_references: bool,
}

/// An account of an Infrastructure Manager with a password.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ImAccount {
    /// Give the user name. It cannot be changed.
    #[schemars(length(min = 1, max = 255))]
    pub username: String,

    /// Name the Secret with the password. Its key is password unless another is given.
    #[schemars(transform = schema::DefaultKey("password"))]
    pub password_secret_ref: SecretRef,

    /// While you change the password, name the Secret with the old one: infrastructures belong to a user name with its password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::DefaultKey("password"))]
    pub previous_password_secret_ref: Option<SecretRef>,
}

/// A key of a Secret: in the namespace of the object that names it, or for a cluster-scoped object in the one that the operator was
/// started with.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
pub struct SecretRef {
    /// Name the Secret.
    #[schemars(length(min = 1, max = schema::NAME_MAX))]
    pub name: String,

    /// Name the key in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::NAME_MAX))]
    pub key: Option<String>,
}

impl SecretRef {
    /// Returns the key, or this one if none is given. The API server fills in the default, so this is for objects that it has not seen.
    pub fn key_or<'a>(&'a self, default: &'a str) -> &'a str {
        self.key.as_deref().unwrap_or(default)
    }
}

/// What the Infrastructure Manager says, published by the operator.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct InfrastructureProviderStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The version of the Infrastructure Manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,

    /// How many Clusters use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusters: Option<i32>,

    /// Conditions: Reachable, Authenticated, Ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::conditions)]
    pub conditions: Option<Vec<Condition>>,
}

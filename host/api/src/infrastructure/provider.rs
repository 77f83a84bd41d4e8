//! InfrastructureProvider: an Infrastructure Manager, and the account there.
#![expect(
    unreachable_pub,
    reason = "KubeSchema repeats the struct inside a function"
)]
#![expect(clippy::duplicated_attributes, reason = "columns are of equal types")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

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
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
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
    validation = Rule::new("!has(self.basic) || !has(oldSelf.basic) || self.basic.username == oldSelf.basic.username").message("basic.username cannot be changed: infrastructures belong to the account; create another provider")
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

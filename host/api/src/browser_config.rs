//! BrowserConfig: what the pods of a namespace's Browsers look like.
#![expect(clippy::duplicated_attributes, reason = "columns are of equal types")]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pod_settings::{PodSettings, VersionConfig};
use crate::schema;

/// A BrowserConfig whose API group is known at run time.
pub type BrowserConfigObject = kube::core::Object<BrowserConfigSpec, BrowserConfigStatus>;

/// The versions of one browser, by name.
pub type Versions = BTreeMap<String, VersionConfig>;

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
    printcolumn(
        name = "LastUpdated",
        type_ = "date",
        json_path = ".status.lastUpdated"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
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

    /// The condition Accepted, with the reason Valid, InvalidTemplate or DuplicateBrowser.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::conditions)]
    pub conditions: Option<Vec<Condition>>,

    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

//! Cleaners: each deletes a group of objects of its namespace once they are old enough and conditions hold.
#![expect(
    unreachable_pub,
    reason = "KubeSchema repeats the struct inside a function"
)]
#![expect(clippy::duplicated_attributes, reason = "columns are of equal types")]

mod schema;
mod status;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::ApiResource;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::duration::{self, DurationError};
use crate::schema::{DNS_SUBDOMAIN, NAME_MAX};
pub use status::{
    CleanerStatus, ConditionResult, ConditionVerdict, DeletionPhase, DeletionProgress,
    DeliveryProgress, HelmHookRun, HelmProgress, HelmStep, ObjectOutcome, PlannedObject,
    TargetSnapshot,
};

/// A Cleaner as the API server stores it.
pub type CleanerObject = kube::core::Object<CleanerSpec, CleanerStatus>;

/// The shortest time between two evaluations.
const SHORTEST_PERIOD: Duration = Duration::from_secs(1);

/// The time between two evaluations, unless the spec gives another.
const DEFAULT_PERIOD: &str = "5m";

/// What is deleted, and when.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "cleaner.vtex.dev",
    version = "v1alpha",
    kind = "Cleaner",
    plural = "cleaners",
    shortname = "clnr",
    namespaced,
    status = "CleanerStatus",
    derive = "PartialEq",
    doc = "Deletes a group of objects of this namespace, and itself, once they are old enough and all conditions are true.",
    printcolumn(name = "TTL", type_ = "string", json_path = ".spec.ttl"),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason"
    ),
    printcolumn(
        name = "Next",
        type_ = "string",
        json_path = ".status.nextScheduledEvaluation"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct CleanerSpec {
    /// Give the time for which nothing is deleted, counted from the creation of this object, such as 360h, 1.5h or 1w2d.
    /// Units: ns, us, ms, s, m, h, d (24 hours) and w (7 days). Then everything is deleted as soon as all conditions are true.
    #[schemars(length(max = duration::CHARACTERS), regex(pattern = duration::PATTERN))]
    pub ttl: String,

    /// Choose when the conditions are evaluated again if they are not all true. Without it, that is every 5 minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<CleanerRetry>,

    /// Name a Helm release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm: Option<CleanerHelm>,

    /// List up to 64 targets: objects that conditions look at, objects that are deleted, or both. Defaults to none.
    #[serde(default)]
    #[schemars(length(max = 64), transform = schema::targets)]
    pub targets: Vec<CleanerTarget>,

    /// List up to 32 conditions in CEL, each of 1 to 8192 characters. All must be true. The variable time is the time of the
    /// evaluation; every target with includeWhenEvaluating is a variable too: one object if it is chosen by name, otherwise a
    /// list with its objects in items. Defaults to none: only the time decides.
    #[serde(default)]
    #[schemars(transform = schema::conditions)]
    pub conditions: Vec<String>,

    /// Give an http or https URL that gets a CloudEvent once everything is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), regex(pattern = schema::SINK))]
    pub cloud_event_sink: Option<String>,

    /// Choose what happens if the CloudEvent cannot be delivered.
    #[serde(default)]
    pub delivery: CleanerDelivery,

    /// Choose how targets are deleted, and how many at most.
    #[serde(default)]
    pub deletion: CleanerDeletion,

    /// Only report what would be deleted, and delete nothing. Defaults to false.
    #[serde(default)]
    pub dry_run: bool,
}

/// When conditions are evaluated again.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct CleanerRetry {
    /// Give the time between two evaluations if no target changes, such as 5h. Less than 1s counts as 1s. Defaults to 5m.
    #[schemars(length(max = duration::CHARACTERS), regex(pattern = duration::PATTERN))]
    pub period: String,

    /// Say that conditions which time has made true stay true, as long as no target changes. The operator then computes when that
    /// will be, and looks exactly then instead of every period. Defaults to false.
    pub monotonic: bool,
}

/// A Helm release.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CleanerHelm {
    /// Name the release, in the namespace of this object.
    #[schemars(length(min = 1, max = 53), regex(pattern = DNS_SUBDOMAIN))]
    pub release: String,

    /// Uninstall the release after the targets are deleted. Defaults to false.
    #[serde(default)]
    pub delete: bool,

    /// Do not run the hooks of the chart that belong to its deletion. Defaults to false.
    #[serde(default)]
    pub disable_hooks: bool,

    /// Give the time that each hook may take, such as 10m. Defaults to 5m.
    #[serde(default = "default_hook_timeout")]
    #[schemars(length(max = duration::CHARACTERS), regex(pattern = duration::PATTERN))]
    pub hook_timeout: String,
}

/// What happens if the CloudEvent cannot be delivered.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct CleanerDelivery {
    /// Choose what happens: Block keeps this object until the event is delivered, Ignore gives up after the deadline.
    /// Defaults to Block.
    pub policy: DeliveryPolicy,

    /// Give the time after which Ignore gives up, such as 10m. Defaults to 1h.
    #[schemars(length(max = duration::CHARACTERS), regex(pattern = duration::PATTERN))]
    pub deadline: String,
}

/// How targets are deleted.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct CleanerDeletion {
    /// Choose when the objects that a target owns are deleted: Background deletes them after it, Foreground before it.
    /// Defaults to Background.
    pub propagation_policy: PropagationPolicy,

    /// Give the number of objects, 1 to 2000, above which nothing is deleted. The objects of the Helm release do not count.
    /// Defaults to 100.
    #[schemars(range(min = 1, max = 2000))]
    pub max_objects: i32,

    /// Give the time that each phase may take before it is late, such as 1h: first the targets, then the Helm release.
    /// What is late is still tried again. Defaults to 10m.
    #[schemars(length(max = duration::CHARACTERS), regex(pattern = duration::PATTERN))]
    pub timeout: String,

    /// Go on only when the targets are gone, not already when they are being deleted. Defaults to false.
    pub wait_for_gone: bool,
}

/// What happens if the CloudEvent cannot be delivered.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeliveryPolicy {
    /// It is tried until it is delivered.
    #[default]
    Block,
    /// It is tried until the deadline.
    Ignore,
}

/// When the objects that a target owns are deleted.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PropagationPolicy {
    /// After it.
    #[default]
    Background,
    /// Before it.
    Foreground,
}

impl Default for CleanerRetry {
    fn default() -> Self {
        Self {
            period: DEFAULT_PERIOD.to_owned(),
            monotonic: false,
        }
    }
}

impl Default for CleanerDelivery {
    fn default() -> Self {
        Self {
            policy: DeliveryPolicy::default(),
            deadline: "1h".to_owned(),
        }
    }
}

impl Default for CleanerDeletion {
    fn default() -> Self {
        Self {
            propagation_policy: PropagationPolicy::default(),
            max_objects: 100,
            timeout: "10m".to_owned(),
            wait_for_gone: false,
        }
    }
}

fn default_hook_timeout() -> String {
    "5m".to_owned()
}

impl CleanerSpec {
    /// Returns the time between two evaluations: at least a second, and 5 minutes if the spec has no `retry`.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use podloom_api::CleanerSpec;
    ///
    /// let mut spec: CleanerSpec = serde_json::from_str(r#"{ "ttl": "360h", "retry": { "period": "2ms" } }"#)?;
    /// assert_eq!(spec.retry_period(), Ok(Duration::from_secs(1)));
    /// spec.retry = None;
    /// assert_eq!(spec.retry_period(), Ok(Duration::from_secs(300)));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn retry_period(&self) -> Result<Duration, DurationError> {
        let period = self.retry.as_ref().map_or(DEFAULT_PERIOD, |it| &it.period);
        Ok(duration::parse(period)?.max(SHORTEST_PERIOD))
    }
}

impl Cleaner {
    /// Returns what a dynamic client needs to know of the kind.
    pub fn resource() -> ApiResource {
        ApiResource::erase::<Self>(&())
    }
}

written!(PropagationPolicy: Background, Foreground);

/// One object or several, of one kind.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!self.delete || has(self.reference.name) || (has(self.reference.matchLabels) && size(self.reference.matchLabels) > 0) || (has(self.reference.labelSelector) && ((has(self.reference.labelSelector.matchLabels) && size(self.reference.labelSelector.matchLabels) > 0) || (has(self.reference.labelSelector.matchExpressions) && size(self.reference.labelSelector.matchExpressions) > 0)))").message("an empty selector would delete all objects of this kind, give at least one label").field_path(".reference")
)]
pub struct CleanerTarget {
    /// Name it: conditions use this name as a variable. It begins with a letter or an underscore, and has letters, digits and
    /// underscores, at most 63. It cannot be time, a word that CEL reserves, or the name of a CEL type.
    #[schemars(
        length(min = 1, max = CHARACTERS),
        regex(pattern = PATTERN),
        transform = schema::target_name
    )]
    pub name: String,

    /// Make it a variable in conditions, and evaluate them again when it changes. One that is missing then blocks the deletion.
    /// Defaults to false.
    #[serde(default)]
    pub include_when_evaluating: bool,

    /// Delete it when all conditions are true. Defaults to false: something else deletes it, such as its owner or Helm.
    #[serde(default)]
    pub delete: bool,

    /// Say which objects these are.
    pub reference: TargetReference,
}

/// One object by its name, or several by their labels, in the namespace of the Cleaner.
///
/// No field is nullable: the API server drops one without a value before the rules below count what is given.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("[has(self.name), has(self.matchLabels), has(self.labelSelector)].exists_one(given, given)").message("give exactly one of name, matchLabels and labelSelector"),
    validation = Rule::new("has(self.version) != has(self.apiVersion)").message("give exactly one of version and apiVersion"),
    validation = Rule::new("!has(self.apiGroup) || !has(self.apiVersion)").message("give apiGroup and version, or apiVersion instead of both")
)]
pub struct TargetReference {
    /// Give the API group of the kind, such as apps. Without it, or if it is empty, the kind is of the core, such as Pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = NAME_MAX), regex(pattern = schema::API_GROUP))]
    pub api_group: Option<String>,

    /// Give the version of the kind, such as v1. Give exactly one of version and apiVersion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 63), regex(pattern = schema::API_VERSION))]
    pub version: Option<String>,

    /// Give group and version in one, such as apps/v1, instead of apiGroup and version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 317), regex(pattern = schema::GROUP_VERSION))]
    pub api_version: Option<String>,

    /// Name the kind, in upper or lower case, such as Service or service.
    #[schemars(length(min = 1, max = 63), regex(pattern = schema::KIND))]
    pub kind: String,

    /// Name one object. Give exactly one of name, matchLabels and labelSelector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = NAME_MAX), regex(pattern = schema::OBJECT_NAME))]
    pub name: Option<String>,

    /// Choose all objects with these labels and values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::match_labels")]
    pub match_labels: Option<BTreeMap<String, String>>,

    /// Choose all objects that a label selector matches: labels with their values, and requirements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub label_selector: Option<LabelSelector>,
}

/// The variable with the time of the evaluation.
pub const TIME_VARIABLE: &str = "time";

/// What no target can be called: the variable of the time, and the keywords, reserved words and names of types of CEL.
const RESERVED_NAMES: [&str; 36] = [
    TIME_VARIABLE,
    // Keywords, and words that CEL reserves for other languages.
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
    // Types.
    "bool",
    "bytes",
    "double",
    "duration",
    "dyn",
    "int",
    "list",
    "map",
    "null_type",
    "optional_type",
    "string",
    "timestamp",
    "type",
    "uint",
];

/// How many characters the name of a target may have.
const CHARACTERS: usize = 63;

/// An identifier of CEL.
const PATTERN: &str = "^[A-Za-z_][A-Za-z0-9_]*$";

/// Returns whether conditions can have a variable of this name besides the time, so that a target can be called so.
///
/// ```
/// use podloom_api::is_variable_name;
///
/// assert!(is_variable_name("revisions"));
/// assert!(!is_variable_name("my-pods"));
/// assert!(!is_variable_name("time"));
/// ```
pub fn is_variable_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_first = |byte: u8| is_inner(byte) && !byte.is_ascii_digit();
    bytes.next().is_some_and(is_first)
        && bytes.all(is_inner)
        && name.len() <= CHARACTERS
        && !RESERVED_NAMES.contains(&name)
}

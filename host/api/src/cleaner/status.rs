//! The status of a Cleaner.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema;

/// What the Cleaner waits for or does, published by the operator.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct CleanerStatus {
    /// Conditions: Ready, ConditionsMet, TargetsWatched, Deleting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::conditions)]
    pub conditions: Option<Vec<Condition>>,

    /// When the operator will look again, unless a target changes before. None if nothing is planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_scheduled_evaluation: Option<String>,

    /// The targets that were found, as name.plural.group/version, sorted. The first 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::atomic_list)]
    pub resolved_targets: Option<Vec<String>>,

    /// How many targets were found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_target_count: Option<i64>,

    /// What each condition of the spec evaluated to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::atomic_list)]
    pub condition_results: Option<Vec<ConditionResult>>,

    /// The variable time when all conditions were true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::core)]
    pub evaluation_time: Option<MicroTime>,

    /// The targets as they were when all conditions were true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::atomic_list)]
    pub targets: Option<Vec<TargetSnapshot>>,

    /// What is being deleted. It is decided once, when all conditions were true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion: Option<DeletionProgress>,
}

/// What one condition evaluated to.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ConditionResult {
    /// The place of the condition in the spec. The first has 0.
    pub index: i32,

    /// The result: True, False or Error.
    pub result: ConditionVerdict,

    /// What is wrong with the condition, or which empty list it is true of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub message: Option<String>,
}

/// The result of a condition.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConditionVerdict {
    /// It is true.
    True,
    /// It is false.
    False,
    /// It cannot be evaluated, or is neither true nor false.
    Error,
}

/// A target as it was when all conditions were true.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct TargetSnapshot {
    /// The name of the target in the spec.
    pub name: String,

    /// Whether it is deleted.
    #[serde(default)]
    pub delete: bool,

    /// Whether conditions saw it.
    #[serde(default)]
    pub include_when_evaluating: bool,

    /// The object, or the list of objects; without managed fields and the values of Secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::preserved_atomic")]
    pub state: Option<Value>,

    /// Whether the state has only names and UIDs, since all of them would be too large together.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

written!(ConditionVerdict: True, False, Error);

// What is being deleted, and how far that is.
//
// This is the one part of a Cleaner's status that the operator reads again: after a restart it goes on from here, and it deletes
// nothing that is not listed here.

/// What is being deleted, and how far that is.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DeletionProgress {
    /// What is being done: Targets, Helm, Event or Done, in this order.
    pub phase: DeletionPhase,

    /// Since when.
    #[schemars(transform = schema::core)]
    pub phase_started_at: MicroTime,

    /// The objects of the targets, in the order of the spec.
    #[serde(default)]
    #[schemars(transform = schema::atomic_list)]
    pub objects: Vec<PlannedObject>,

    /// The Helm release that is uninstalled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm: Option<HelmProgress>,

    /// The delivery of the CloudEvent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<DeliveryProgress>,
}

/// What is being done.
#[derive(
    Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash,
)]
pub enum DeletionPhase {
    /// The targets are deleted.
    Targets,
    /// The Helm release is uninstalled.
    Helm,
    /// The CloudEvent is delivered.
    Event,
    /// Nothing is left to do but to remove the finalizer.
    Done,
}

/// One object that is deleted.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PlannedObject {
    /// The name of its target in the spec.
    pub target: String,

    /// The API group of its kind; empty for the core.
    #[serde(default)]
    pub group: String,

    /// The version of its kind.
    pub version: String,

    /// Its kind.
    pub kind: String,

    /// The plural of its kind, as in URLs.
    pub resource: String,

    /// Its namespace.
    pub namespace: String,

    /// Its name.
    pub name: String,

    /// Its UID: another object of the same name is left alone.
    pub uid: String,

    /// What became of it. None until the API server has accepted the deletion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<ObjectOutcome>,

    /// Why it was skipped, or cannot be deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub message: Option<String>,
}

/// What became of an object: Accepted, Gone, Replaced or Skipped.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectOutcome {
    /// The API server has accepted its deletion; finalizers may keep it for a while.
    Accepted,
    /// It does not exist any more, or its kind does not.
    Gone,
    /// Another object has its name, and stays.
    Replaced,
    /// The spec does not say that it is deleted, or its annotation protects it: it stays.
    Skipped,
}

/// How far the uninstallation of a Helm release is.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct HelmProgress {
    /// The name of the release.
    pub release: String,

    /// What is being done: PreDeleteHooks, Manifest, PostDeleteHooks or Records, in this order.
    pub step: HelmStep,

    /// The revision that is uninstalled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,

    /// The UID of the Secret with this revision: a release of this name that is installed later is another one, and stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,

    /// How many hooks of this step have succeeded.
    #[serde(default)]
    pub hooks_done: i32,

    /// How many objects of the manifest this attempt has dealt with.
    #[serde(default)]
    pub objects_done: i32,

    /// How many of these could not be deleted.
    #[serde(default)]
    pub objects_failed: i32,

    /// The hook that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<HelmHookRun>,

    /// Objects of the chart that stay since it says so, as kind/name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::atomic_list)]
    pub kept: Option<Vec<String>>,

    /// Objects of the chart that stay since they are not this release's, as kind/namespace/name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::atomic_list)]
    pub skipped: Option<Vec<String>>,

    /// What last went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub message: Option<String>,
}

/// What is being done for a Helm release.
#[derive(
    Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash,
)]
pub enum HelmStep {
    /// The hooks before the deletion run.
    PreDeleteHooks,
    /// The objects of the manifest are deleted.
    Manifest,
    /// The hooks after the deletion run.
    PostDeleteHooks,
    /// The Secrets with the release's revisions are deleted.
    Records,
}

/// A hook that runs.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct HelmHookRun {
    /// The kind of its object.
    pub kind: String,

    /// The name of its object.
    pub name: String,

    /// The UID of its object, once it is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,

    /// When it began.
    #[schemars(transform = schema::core)]
    pub started_at: MicroTime,
}

/// How far the delivery of the CloudEvent is.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryProgress {
    /// How often it was sent.
    #[serde(default)]
    pub attempts: i32,

    /// What the last attempt failed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub last_error: Option<String>,
}

written!(ObjectOutcome: Accepted, Gone, Replaced, Skipped);

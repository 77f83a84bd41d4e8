//! The status of a Cleaner.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::deletion::DeletionProgress;
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

impl ConditionVerdict {
    /// Returns the result as it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Error => "Error",
        }
    }
}

//! What a Cleaner looks at and deletes.
#![expect(
    unreachable_pub,
    reason = "KubeSchema repeats the struct inside a function"
)]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::{schema, variable};
use crate::schema::NAME_MAX;

/// One object or several, of one kind.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!self.delete || has(self.reference.name) || (has(self.reference.matchLabels) && size(self.reference.matchLabels) > 0) || (has(self.reference.labelSelector) && ((has(self.reference.labelSelector.matchLabels) && size(self.reference.labelSelector.matchLabels) > 0) || (has(self.reference.labelSelector.matchExpressions) && size(self.reference.labelSelector.matchExpressions) > 0)))").message("an empty selector would delete all objects of this kind, give at least one label")
)]
pub struct CleanerTarget {
    /// Name it: conditions use this name as a variable. It begins with a letter or an underscore, and has letters, digits and
    /// underscores, at most 63. It cannot be time, a word that CEL reserves, or the name of a CEL type.
    #[schemars(
        length(min = 1, max = variable::CHARACTERS),
        regex(pattern = variable::PATTERN),
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

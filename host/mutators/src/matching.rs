//! Selects the pods that a plugin runs on.

mod condition;

use std::collections::BTreeMap;

use podloom_mutation::{Dimension, Operation, PodRequest};
use podloom_pod_path::nearest;
use podloom_syntax::text::matches;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::condition::{Takes, literal};
use crate::text::one_line;

/// Selects the pods that a plugin runs on: all given dimensions must match.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Match {
    /// Name what is done to pods when the plugin runs, as in a webhook configuration: CREATE for new pods; UPDATE when an image or one
    /// of the few other fields that may change is changed, when a pod is resized, and when it gets an ephemeral container; CLAIM when a
    /// session gets its pod, which may have waited for it. The webhook sees UPDATE only with deploy/options/updates, and never CLAIM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    operations: Option<Operations>,
    /// Name the kinds of submitted objects: one of Podloom's own, or Pod, which every other object with a pod template counts as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kinds: Option<Kinds>,
    /// Name the namespaces; `*` stands for any characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespaces: Option<Globs>,
    /// Select by labels of the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace_selector: Option<LabelSelector>,
    /// Select by labels of the pod, as the plugins before have left them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    selector: Option<LabelSelector>,
}

/// Operations, at least one. Without them it is CREATE alone.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(try_from = "Vec<AdmissionOperation>")]
#[schemars(extend("minItems" = 1))]
struct Operations(Vec<AdmissionOperation>);

/// An operation, as webhook configurations have it.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
enum AdmissionOperation {
    Create,
    Update,
    Claim,
}

impl TryFrom<Vec<AdmissionOperation>> for Operations {
    type Error = String;

    fn try_from(operations: Vec<AdmissionOperation>) -> Result<Self, String> {
        match operations.is_empty() {
            true => Err(
                "operations is empty, so the plugin would never run; omit it to match new pods"
                    .to_owned(),
            ),
            false => Ok(Self(operations)),
        }
    }
}

/// Kinds, at least one.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(try_from = "Vec<String>")]
#[schemars(extend("minItems" = 1))]
struct Kinds(Vec<String>);

impl TryFrom<Vec<String>> for Kinds {
    type Error = String;

    fn try_from(kinds: Vec<String>) -> Result<Self, String> {
        if kinds.is_empty() {
            return Err(
                "kinds is empty, so the plugin would never run; omit it to match every kind"
                    .to_owned(),
            );
        }
        let is_kind = |kind: &String| {
            kind.starts_with(|char: char| char.is_ascii_uppercase())
                && kind.chars().all(|char| char.is_ascii_alphanumeric())
        };
        match kinds.iter().find(|kind| !is_kind(kind)) {
            Some(kind) => Err(format!(
                "{kind:?} is not a kind; write it like Pod or Browser"
            )),
            None => Ok(Self(kinds)),
        }
    }
}

/// Patterns of namespace names, at least one.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(try_from = "Vec<String>")]
#[schemars(extend("minItems" = 1))]
struct Globs(Vec<String>);

impl TryFrom<Vec<String>> for Globs {
    type Error = String;

    fn try_from(globs: Vec<String>) -> Result<Self, String> {
        if globs.is_empty() {
            return Err("namespaces is empty, so the plugin would never run; omit it to match every namespace".to_owned());
        }
        let allowed = |char: char| {
            char.is_ascii_lowercase() || char.is_ascii_digit() || char == '-' || char == '*'
        };
        let is_glob = |glob: &String| (1..=63).contains(&glob.len()) && glob.chars().all(allowed);
        match globs.iter().find(|glob| !is_glob(glob)) {
            Some(glob) => Err(format!(
                "{glob:?} is not a namespace or a pattern; use a-z, 0-9, `-`, and `*` for any characters"
            )),
            None => Ok(Self(globs)),
        }
    }
}

/// A label selector as in Kubernetes; an empty one selects everything.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LabelSelector {
    /// Require each of these labels with this value.
    #[serde(default)]
    match_labels: BTreeMap<String, String>,
    /// Require each of these expressions to hold.
    #[serde(default)]
    match_expressions: Vec<Requirement>,
}

/// One expression over a label.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(try_from = "RawRequirement")]
struct Requirement(#[schemars(with = "RawRequirement")] RawRequirement);

#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
struct RawRequirement {
    /// Name the label's key.
    key: String,
    /// Choose what must hold.
    operator: Operator,
    /// List values for In and NotIn.
    #[serde(default)]
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl TryFrom<RawRequirement> for Requirement {
    type Error = String;

    fn try_from(raw: RawRequirement) -> Result<Self, String> {
        let key = &raw.key;
        let needs_values = matches!(raw.operator, Operator::In | Operator::NotIn);
        match (needs_values, raw.values.is_empty()) {
            (true, true) => Err(format!(
                "the expression on {key:?} needs values, because its operator is {:?}",
                raw.operator
            )),
            (false, false) => Err(format!(
                "the expression on {key:?} takes no values, because its operator is {:?}; remove them",
                raw.operator
            )),
            _ => Ok(Self(raw)),
        }
    }
}

/// The kinds that plugins see. Every other object with a pod template counts as a Pod.
const SUBMITTED: [&str; 2] = ["Browser", "Pod"];

impl Match {
    /// The kinds that no plugin ever sees.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let kinds = self.kinds.iter().flat_map(|kinds| &kinds.0);
        let unseen = kinds.filter(|kind| !SUBMITTED.contains(&kind.as_str()));
        let messages = unseen.map(|kind| {
            let advice = match nearest(kind, SUBMITTED) {
                Some(near) => format!("did you mean {near}?"),
                None => "write Pod, which stands for all objects with a pod template, or Browser"
                    .to_owned(),
            };
            one_line(
                &format!("`match.kinds` has {kind}, which no plugin ever sees; {advice}"),
                200,
            )
        });
        messages.collect()
    }

    /// Whether it selects changes of pods that exist.
    pub(crate) fn takes_updates(&self) -> bool {
        self.has(AdmissionOperation::Update)
    }

    /// Whether it selects pods that become those of sessions.
    pub(crate) fn takes_claims(&self) -> bool {
        self.has(AdmissionOperation::Claim)
    }

    fn has(&self, operation: AdmissionOperation) -> bool {
        match &self.operations {
            None => operation == AdmissionOperation::Create,
            Some(Operations(operations)) => operations.contains(&operation),
        }
    }

    /// The labels of the pod by which it selects.
    pub(crate) fn labels(&self) -> impl Iterator<Item = &str> {
        let selector = self.selector.iter();
        selector.flat_map(|selector| {
            let expressions = selector.match_expressions.iter().map(|it| &it.0.key);
            let keys = selector.match_labels.keys().chain(expressions);
            keys.map(String::as_str)
        })
    }

    /// Returns whether labels of namespaces decide, so that without them nobody knows.
    pub fn selects_namespaces(&self) -> bool {
        let selector = self.namespace_selector.as_ref();
        selector.is_some_and(|it| !it.match_labels.is_empty() || !it.match_expressions.is_empty())
    }

    /// Returns the first dimension that does not match, and of all only the last needs the labels of the namespace. Looks up labels of
    /// the pod only if the selector needs them.
    pub fn excludes<'a>(
        &self,
        request: &PodRequest,
        pod_label: impl Fn(&str) -> Option<&'a str>,
    ) -> Option<Dimension> {
        if !self.has(match request.later.as_ref().map(|it| it.operation) {
            None | Some(Operation::Create) => AdmissionOperation::Create,
            Some(Operation::Claim) => AdmissionOperation::Claim,
            Some(_) => AdmissionOperation::Update,
        }) {
            return Some(Dimension::Operations);
        }
        let kinds = self.kinds.as_ref();
        if !kinds.is_none_or(|kinds| kinds.0.iter().any(|kind| kind == request.kind)) {
            return Some(Dimension::Kinds);
        }
        let namespaces = self.namespaces.as_ref();
        let is_named = |glob: &String| matches(glob, &request.namespace);
        if !namespaces.is_none_or(|globs| globs.0.iter().any(is_named)) {
            return Some(Dimension::Namespaces);
        }
        let selector = self.selector.as_ref();
        if !selector.is_none_or(|selector| selector.selects(pod_label)) {
            return Some(Dimension::Selector);
        }
        // Last: a pod whose namespace is not known is excluded by what is known of it.
        let namespace_label = |key: &str| request.namespace_labels.get(key).map(String::as_str);
        let selector = self.namespace_selector.as_ref();
        let is_selected = selector.is_none_or(|selector| selector.selects(namespace_label));
        (!is_selected).then_some(Dimension::NamespaceSelector)
    }
}

impl LabelSelector {
    fn selects<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        let mut labels = self.match_labels.iter();
        let mut expressions = self.match_expressions.iter();
        labels.all(|(key, value)| label(key) == Some(value.as_str()))
            && expressions.all(|it| it.holds(label(&it.0.key)))
    }
}

impl Requirement {
    /// As in Kubernetes, `NotIn` also matches if the label is absent.
    fn holds(&self, label: Option<&str>) -> bool {
        let listed = || label.is_some_and(|label| self.0.values.iter().any(|value| value == label));
        match self.0.operator {
            Operator::In => listed(),
            Operator::NotIn => !listed(),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
        }
    }
}

#[cfg(test)]
mod tests;

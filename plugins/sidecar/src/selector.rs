//! Label selectors, as Kubernetes has them.

#[cfg(not(target_family = "wasm"))]
use podloom_plugin_sdk::prelude::JsonSchema;

use crate::json::Object;

/// Matches pods by their labels; all conditions must hold. An empty selector matches every pod.
#[derive(Debug)]
#[cfg_attr(
    not(target_family = "wasm"),
    derive(JsonSchema),
    schemars(
        crate = "podloom_plugin_sdk::schemars",
        rename_all = "camelCase",
        deny_unknown_fields
    )
)]
pub(crate) struct LabelSelector {
    /// Labels and the values they must have. Default none.
    #[cfg_attr(
        not(target_family = "wasm"),
        schemars(default, with = "std::collections::BTreeMap<String, String>")
    )]
    pub(crate) match_labels: Object,
    /// Conditions on single labels. Default none.
    #[cfg_attr(not(target_family = "wasm"), schemars(default))]
    pub(crate) match_expressions: Vec<Requirement>,
}

/// A condition on a label.
#[derive(Debug)]
#[cfg_attr(
    not(target_family = "wasm"),
    derive(JsonSchema),
    schemars(crate = "podloom_plugin_sdk::schemars", deny_unknown_fields)
)]
pub(crate) struct Requirement {
    /// The label's key.
    pub(crate) key: String,
    /// How the label relates to the values.
    pub(crate) operator: Operator,
    /// The values; for `In` and `NotIn` at least one, otherwise none.
    #[cfg_attr(not(target_family = "wasm"), schemars(default))]
    pub(crate) values: Vec<String>,
}

/// How a label relates to values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(target_family = "wasm"),
    derive(JsonSchema),
    schemars(crate = "podloom_plugin_sdk::schemars")
)]
pub(crate) enum Operator {
    /// Has one of them.
    In,
    /// Has none of them, or is missing.
    NotIn,
    /// Is there.
    Exists,
    /// Is missing.
    DoesNotExist,
}

impl LabelSelector {
    pub(crate) fn matches(&self, labels: &Object) -> bool {
        self.match_labels
            .fields()
            .all(|(key, value)| labels.get(key) == Some(value))
            && self
                .match_expressions
                .iter()
                .all(|requirement| requirement.matches(labels))
    }
}

impl Requirement {
    fn matches(&self, labels: &Object) -> bool {
        let is_listed = || {
            labels.has(&self.key)
                && self
                    .values
                    .iter()
                    .any(|value| value == labels.string(&self.key))
        };
        match self.operator {
            Operator::In => is_listed(),
            Operator::NotIn => !is_listed(),
            Operator::Exists => labels.has(&self.key),
            Operator::DoesNotExist => !labels.has(&self.key),
        }
    }

    /// Whether the number of values fits the operator.
    pub(crate) fn is_valid(&self) -> bool {
        let wants_values = matches!(self.operator, Operator::In | Operator::NotIn);
        wants_values != self.values.is_empty()
    }
}

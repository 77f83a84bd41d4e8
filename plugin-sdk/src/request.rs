//! For whom the pod is being mutated, and which pods a label selector matches.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::backend;
use crate::operation::Operation;

/// What is being mutated, and for whom.
#[derive(Clone, Debug)]
pub struct Request {
    pub(crate) inner: backend::Submitted,
}

impl Request {
    /// Returns the kind of the object that was submitted: one of Podloom's own (`Browser`, ...), else `Pod`, for templates too.
    #[must_use]
    pub fn kind(&self) -> String {
        self.inner.kind()
    }

    /// Returns the submitted object's name; empty when only the API server will choose it.
    #[must_use]
    pub fn name(&self) -> String {
        self.inner.name()
    }

    /// Returns the namespace the pod will live in.
    #[must_use]
    pub fn namespace(&self) -> String {
        self.inner.namespace()
    }

    /// Returns a label of the submitted object.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<String> {
        self.inner.label(key)
    }

    /// Returns an annotation of the submitted object; `None` for `kubectl.kubernetes.io/last-applied-configuration`, which holds the
    /// whole object.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<String> {
        self.inner.annotation(key)
    }

    /// Returns a label of the namespace. If the host does not know the namespace, the plugin is stopped here, and the pod is refused for
    /// now.
    #[must_use]
    pub fn namespace_label(&self, key: &str) -> Option<String> {
        self.inner.namespace_label(key)
    }

    /// Returns an annotation of the namespace, likewise; `None` for `kubectl.kubernetes.io/last-applied-configuration`.
    #[must_use]
    pub fn namespace_annotation(&self, key: &str) -> Option<String> {
        self.inner.namespace_annotation(key)
    }

    /// Returns whether the result will be thrown away.
    #[must_use]
    pub fn dry_run(&self) -> bool {
        self.inner.dry_run()
    }

    /// Returns what is done to the pod. It is [`Operation::Create`] unless `match.operations` in the chain's manifest has `UPDATE`.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.inner.operation()
    }

    /// Returns the paths of what the operation changes in the pod's spec, such as `/spec/ephemeralContainers/[name=debugger]`; empty for
    /// a new pod. Everything else passed the chain before, or is older than the chain.
    #[must_use]
    pub fn changes(&self) -> Vec<String> {
        self.inner.changes()
    }
}

/// Matches pods by their labels; all conditions must hold. An empty selector matches every pod.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use podloom_plugin_sdk::{LabelSelector, json};
///
/// let selector: LabelSelector = json::from_str(
///     r#"{"matchLabels": {"tier": "web"}, "matchExpressions": [{"key": "legacy", "operator": "DoesNotExist"}]}"#,
/// )?;
/// let labels = BTreeMap::from([("tier".to_owned(), "web".to_owned())]);
/// assert!(selector.matches(&labels));
/// # Ok::<(), podloom_plugin_sdk::json::Error>(())
/// ```
// The comments of these types are what users read in the schema of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(
    description = "Matches pods by their labels; all conditions must hold. An empty selector matches every pod."
)]
pub struct LabelSelector {
    /// Labels and the values they must have. Default none.
    #[serde(default)]
    pub match_labels: BTreeMap<String, String>,
    /// Conditions on single labels. Default none.
    #[serde(default)]
    pub match_expressions: Vec<Requirement>,
}

/// A condition on a label.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// The label's key.
    pub key: String,
    /// How the label relates to the values.
    pub operator: Operator,
    /// The values; for `In` and `NotIn` at least one, otherwise none.
    #[serde(default)]
    pub values: Vec<String>,
}

/// How a label relates to values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum Operator {
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
    /// Returns whether a pod with these labels is selected.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let mut expected = self.match_labels.iter();
        let mut expressions = self.match_expressions.iter();
        expected.all(|(key, value)| labels.get(key) == Some(value))
            && expressions.all(|requirement| requirement.holds(labels.get(&requirement.key)))
    }

    /// Returns what is wrong with the selector, a sentence each, for [`Mutator::validate`](crate::Mutator::validate).
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let wrong = self
            .match_expressions
            .iter()
            .filter(|requirement| !requirement.is_valid());
        wrong
            .map(|Requirement { key, .. }| {
                format!("{key}: In and NotIn need values, Exists and DoesNotExist take none")
            })
            .collect()
    }
}

impl Requirement {
    fn holds(&self, label: Option<&String>) -> bool {
        let is_listed = label.is_some_and(|label| self.values.contains(label));
        match self.operator {
            Operator::In => is_listed,
            Operator::NotIn => !is_listed,
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
        }
    }

    /// Whether the number of values fits the operator.
    fn is_valid(&self) -> bool {
        let wants_values = matches!(self.operator, Operator::In | Operator::NotIn);
        wants_values != self.values.is_empty()
    }
}

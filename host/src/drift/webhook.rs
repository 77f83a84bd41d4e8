//! Which pods the installed webhook configuration selects when they are created, or get ephemeral containers.

use std::collections::BTreeMap;
use std::slice::from_ref;

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use podloom_mutation::Operation;
use podloom_mutators::CHAIN;

use super::Unclear;

/// The webhook configuration, as far as it may be read.
pub(super) enum Webhook {
    Installed {
        created: Option<Timestamp>,
        /// Those that are called for new pods.
        hooks: Vec<MutatingWebhook>,
        /// Those that are called for ephemeral containers.
        ephemeral: Vec<MutatingWebhook>,
    },
    /// The cluster has none of this name, so no pod can miss it.
    Absent,
    /// The user may not read it.
    Unread,
}

impl Webhook {
    pub(super) fn of(configuration: &MutatingWebhookConfiguration) -> Self {
        let created = configuration.metadata.creation_timestamp.as_ref();
        let hooks = hooks_for_new_pods(configuration);
        let ephemeral = hooks_for(configuration, takes_ephemeral);
        Self::Installed {
            created: created.map(|time| time.0),
            hooks: hooks.cloned().collect(),
            ephemeral: ephemeral.cloned().collect(),
        }
    }

    /// Whether a pod with these labels, in a namespace with these ones, would be sent to one of the webhooks now: a new one, or one that
    /// gets ephemeral containers. If no webhook is called for these, that for new pods decides. What a condition that was made from a
    /// chain leaves out counts as sent if the chain is known, since its plugins say whether one takes the pod.
    pub(super) fn selects(
        &self,
        operation: Operation,
        namespace: Labels<'_>,
        pod: &BTreeMap<String, String>,
        knows_chain: bool,
    ) -> Result<bool, Unclear> {
        let (new, ephemeral) = match self {
            Self::Installed {
                hooks, ephemeral, ..
            } => (hooks, ephemeral),
            Self::Absent => return Ok(false),
            Self::Unread => return Err(Unclear::Configuration),
        };
        let hooks = match operation {
            Operation::EphemeralContainers if !ephemeral.is_empty() => ephemeral,
            _ => new,
        };
        any_selects(hooks, namespace, pod, knows_chain)
    }
}

/// The webhooks of a configuration that are called for new pods.
pub(crate) fn hooks_for_new_pods(
    configuration: &MutatingWebhookConfiguration,
) -> impl Iterator<Item = &MutatingWebhook> {
    hooks_for(configuration, selects_new_pods)
}

fn hooks_for(
    configuration: &MutatingWebhookConfiguration,
    is_such: fn(&RuleWithOperations) -> bool,
) -> impl Iterator<Item = &MutatingWebhook> {
    let hooks = configuration.webhooks.iter().flatten();
    hooks.filter(move |hook| hook.rules.iter().flatten().any(is_such))
}

/// Asks only about changes of a pod's spec, which each new ephemeral container is.
const SPEC_CHANGES: &str = "spec-changes";

fn any_selects(
    hooks: &[MutatingWebhook],
    namespace: Labels<'_>,
    pod: &BTreeMap<String, String>,
    knows_chain: bool,
) -> Result<bool, Unclear> {
    let holds = |it: &MatchCondition| it.name == SPEC_CHANGES || (knows_chain && it.name == CHAIN);
    let mut best = Ok(false);
    for hook in hooks {
        let selected = [
            selects(hook.namespace_selector.as_ref(), namespace),
            selects(hook.object_selector.as_ref(), (pod, true)),
        ];
        match all(selected.into_iter()) {
            Some(false) => {}
            None => best = Err(Unclear::Namespace),
            // These are CEL over the request too, and nobody knows afterwards who sent it.
            Some(true) => match hook.match_conditions.iter().flatten().all(holds) {
                true => return Ok(true),
                false => best = Err(Unclear::Conditions),
            },
        }
    }
    best
}

/// As the API server reads it, `pods/*` stands for pods and their subresources.
fn selects_new_pods(rule: &RuleWithOperations) -> bool {
    takes(rule, "CREATE", &["*", "*/*", "pods", "pods/*"])
}

fn takes_ephemeral(rule: &RuleWithOperations) -> bool {
    let own = "pods/ephemeralcontainers";
    takes(
        rule,
        "UPDATE",
        &["*/*", "pods/*", "*/ephemeralcontainers", own],
    )
}

fn takes(rule: &RuleWithOperations, operation: &str, resources: &[&str]) -> bool {
    let has = |list: &Option<Vec<String>>, wanted: &str| {
        let mut list = list.iter().flatten();
        list.any(|it| it == "*" || it == wanted)
    };
    let mut taken = rule.resources.iter().flatten();
    has(&rule.operations, operation)
        && has(&rule.api_groups, "")
        && has(&rule.api_versions, "v1")
        && taken.any(|it| resources.contains(&it.as_str()))
        && rule.scope.as_deref() != Some("Cluster")
}

// Label selectors on labels of which some may be unknown.

/// Labels, and whether all are known.
pub(super) type Labels<'a> = (&'a BTreeMap<String, String>, bool);

/// Whether a selector selects these labels; none if that depends on a label that is not known.
fn selects(selector: Option<&LabelSelector>, labels: Labels<'_>) -> Option<bool> {
    let exact = selector.and_then(|it| it.match_labels.as_ref());
    let exact = exact.into_iter().flatten();
    let exact = exact.map(|(key, value)| is_one_of(labels, key, from_ref(value)));
    let expressions = selector.and_then(|it| it.match_expressions.as_ref());
    let expressions = expressions.into_iter().flatten();
    all(exact.chain(expressions.map(|it| holds(it, labels))))
}

/// Whether all are true; none if that is not known.
fn all(parts: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut is_known = true;
    for part in parts {
        match part {
            Some(true) => {}
            Some(false) => return Some(false),
            None => is_known = false,
        }
    }
    is_known.then_some(true)
}

/// As in Kubernetes, `NotIn` holds if the label is absent.
fn holds(requirement: &LabelSelectorRequirement, labels: Labels<'_>) -> Option<bool> {
    let key = &requirement.key;
    let values = requirement.values.as_deref().unwrap_or_default();
    match requirement.operator.as_str() {
        "In" => is_one_of(labels, key, values),
        "NotIn" => is_one_of(labels, key, values).map(|is| !is),
        "Exists" => is_such(labels, key, |_| true),
        "DoesNotExist" => is_such(labels, key, |_| true).map(|is| !is),
        // The API server accepts no other one.
        _ => None,
    }
}

fn is_one_of(labels: Labels<'_>, key: &str, values: &[String]) -> Option<bool> {
    is_such(labels, key, |value| values.contains(value))
}

fn is_such(labels: Labels<'_>, key: &str, is: impl Fn(&String) -> bool) -> Option<bool> {
    let (labels, are_all) = labels;
    match labels.get(key) {
        Some(value) => Some(is(value)),
        None => are_all.then_some(false),
    }
}

//! Which pods the installed webhook configuration selects when they are created.

use std::collections::BTreeMap;
use std::slice::from_ref;

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::Unclear;

/// The webhook configuration, as far as it may be read.
pub(super) enum Webhook {
    Installed(Installed),
    /// The cluster has none of this name, so no pod can miss it.
    Absent,
    /// The user may not read it.
    Unread,
}

/// A webhook configuration.
pub(super) struct Installed {
    pub(super) created: Option<Timestamp>,
    /// Those that are called for new pods.
    hooks: Vec<MutatingWebhook>,
}

impl Installed {
    pub(super) fn of(configuration: &MutatingWebhookConfiguration) -> Self {
        let created = configuration.metadata.creation_timestamp.as_ref();
        let hooks = configuration.webhooks.iter().flatten();
        let hooks = hooks.filter(|hook| hook.rules.iter().flatten().any(selects_new_pods));
        Self {
            created: created.map(|time| time.0),
            hooks: hooks.cloned().collect(),
        }
    }

    /// Whether a pod with these labels would be sent to the webhook now.
    pub(super) fn selects(
        &self,
        namespace: &str,
        namespaces: &Namespaces,
        labels: &BTreeMap<String, String>,
    ) -> Result<bool, Unclear> {
        let of_namespace = |key: &str| namespaces.label(namespace, key);
        let of_pod = |key: &str| match labels.get(key) {
            Some(value) => Label::Is(value),
            None => Label::Absent,
        };
        let mut best = Ok(false);
        for hook in &self.hooks {
            let selected = [
                selects(hook.namespace_selector.as_ref(), &of_namespace),
                selects(hook.object_selector.as_ref(), &of_pod),
            ];
            match all(selected.into_iter()) {
                Some(false) => {}
                None => best = Err(Unclear::Namespace),
                // These are CEL over the request too, and nobody knows afterwards who sent it.
                Some(true) if hook.match_conditions.iter().flatten().next().is_some() => {
                    best = Err(Unclear::Conditions);
                }
                Some(true) => return Ok(true),
            }
        }
        best
    }
}

fn selects_new_pods(rule: &RuleWithOperations) -> bool {
    let has = |list: &Option<Vec<String>>, wanted: &str| {
        let mut list = list.iter().flatten();
        list.any(|it| it == "*" || it == wanted)
    };
    // As the API server reads it, `pods/*` stands for pods and their subresources.
    let is_pods = |resource: &String| matches!(resource.as_str(), "*" | "*/*" | "pods" | "pods/*");
    has(&rule.operations, "CREATE")
        && has(&rule.api_groups, "")
        && has(&rule.api_versions, "v1")
        && rule.resources.iter().flatten().any(is_pods)
        && rule.scope.as_deref() != Some("Cluster")
}

// Label selectors on labels of which some may be unknown.

/// A label, as far as it is known.
#[derive(Clone, Copy)]
pub(super) enum Label<'a> {
    Is(&'a str),
    Absent,
    Unknown,
}

/// Whether a selector selects these labels; none if that depends on a label that is not known.
fn selects<'a>(
    selector: Option<&LabelSelector>,
    label: &dyn Fn(&str) -> Label<'a>,
) -> Option<bool> {
    let exact = selector.and_then(|it| it.match_labels.as_ref());
    let exact = exact.into_iter().flatten();
    let exact = exact.map(|(key, value)| is_one_of(label(key), from_ref(value)));
    let expressions = selector.and_then(|it| it.match_expressions.as_ref());
    let expressions = expressions.into_iter().flatten();
    let expressions = expressions.map(|it| holds(it, label(&it.key)));
    all(exact.chain(expressions))
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
fn holds(requirement: &LabelSelectorRequirement, label: Label<'_>) -> Option<bool> {
    let values = requirement.values.as_deref().unwrap_or_default();
    match requirement.operator.as_str() {
        "In" => is_one_of(label, values),
        "NotIn" => is_one_of(label, values).map(|is| !is),
        "Exists" => is_there(label),
        "DoesNotExist" => is_there(label).map(|is| !is),
        // The API server accepts no other one.
        _ => None,
    }
}

fn is_one_of(label: Label<'_>, values: &[String]) -> Option<bool> {
    match label {
        Label::Is(value) => Some(values.iter().any(|it| it == value)),
        Label::Absent => Some(false),
        Label::Unknown => None,
    }
}

fn is_there(label: Label<'_>) -> Option<bool> {
    match label {
        Label::Is(_) => Some(true),
        Label::Absent => Some(false),
        Label::Unknown => None,
    }
}

// The labels of namespaces, as far as they may be read.

/// The label that the API server sets on every namespace.
const NAME: &str = "kubernetes.io/metadata.name";

/// The labels of the namespaces that could be read.
#[derive(Default)]
pub(super) struct Namespaces(BTreeMap<String, BTreeMap<String, String>>);

impl Namespaces {
    pub(super) fn insert(&mut self, name: String, labels: BTreeMap<String, String>) {
        self.0.insert(name, labels);
    }

    pub(super) fn is_known(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// A label of a namespace. Of one that could not be read, the name is known.
    pub(super) fn label<'a>(&'a self, name: &'a str, key: &str) -> Label<'a> {
        match self.0.get(name) {
            _ if key == NAME => Label::Is(name),
            None => Label::Unknown,
            Some(labels) => match labels.get(key) {
                Some(value) => Label::Is(value),
                None => Label::Absent,
            },
        }
    }

    /// The labels that a plugin of the chain sees.
    pub(super) fn labels(&self, name: &str) -> BTreeMap<String, String> {
        let mut labels = self.0.get(name).cloned().unwrap_or_default();
        labels.insert(NAME.to_owned(), name.to_owned());
        labels
    }
}

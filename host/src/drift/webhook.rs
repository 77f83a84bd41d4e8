//! Which pods the installed webhook configuration selects when they are created.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::namespaces::Namespaces;
use super::selector::{Label, all, selects};

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
    hooks: Vec<Hook>,
}

struct Hook {
    namespaces: LabelSelector,
    objects: LabelSelector,
    /// These are CEL over the request too, and nobody knows afterwards who sent it.
    has_conditions: bool,
}

/// Whether a pod with these labels would be sent to the webhook now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Selected {
    Yes,
    No,
    /// That depends on labels of a namespace that may not be read.
    UnknownNamespace,
    /// That depends on `matchConditions`.
    Conditional,
}

impl Installed {
    pub(super) fn of(configuration: &MutatingWebhookConfiguration) -> Self {
        let created = configuration.metadata.creation_timestamp.as_ref();
        let hooks = configuration.webhooks.iter().flatten();
        let hooks = hooks.filter(|hook| hook.rules.iter().flatten().any(selects_new_pods));
        Self {
            created: created.map(|time| time.0),
            hooks: hooks.map(Hook::of).collect(),
        }
    }

    pub(super) fn selects(
        &self,
        namespace: &str,
        namespaces: &Namespaces,
        labels: &BTreeMap<String, String>,
    ) -> Selected {
        let mut best = Selected::No;
        for hook in &self.hooks {
            match hook.selects(namespace, namespaces, labels) {
                Selected::Yes => return Selected::Yes,
                Selected::No => {}
                unclear => best = unclear,
            }
        }
        best
    }
}

impl Hook {
    fn of(hook: &MutatingWebhook) -> Self {
        Self {
            namespaces: hook.namespace_selector.clone().unwrap_or_default(),
            objects: hook.object_selector.clone().unwrap_or_default(),
            has_conditions: hook.match_conditions.iter().flatten().next().is_some(),
        }
    }

    fn selects(
        &self,
        namespace: &str,
        namespaces: &Namespaces,
        labels: &BTreeMap<String, String>,
    ) -> Selected {
        let of_namespace = |key: &str| namespaces.label(namespace, key);
        let of_pod = |key: &str| match labels.get(key) {
            Some(value) => Label::Is(value),
            None => Label::Absent,
        };
        let selected = [
            selects(&self.namespaces, &of_namespace),
            selects(&self.objects, &of_pod),
        ];
        match all(selected.into_iter()) {
            Some(false) => Selected::No,
            None => Selected::UnknownNamespace,
            Some(true) if self.has_conditions => Selected::Conditional,
            Some(true) => Selected::Yes,
        }
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

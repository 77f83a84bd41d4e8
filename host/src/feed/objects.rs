//! Which objects of a cluster are compared, and how they looked before they came into it.

#[cfg(test)]
mod tests;

use podloom_api::{SelenosisApi, SelenosisKind};
use serde_json::Value;

/// A kind of objects with pods.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    owners: Owners,
}

/// Which objects of a kind stand for themselves, besides those without a controller.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Owners {
    /// All.
    Any,
    /// Those whose controller is not read itself, since they have a template.
    Unread,
    /// None: who is not read leaves pods on which a chain has run already.
    None,
}

/// All kinds. What has an owner that is read itself is left out, since it is made of its owner's template.
pub(crate) const KINDS: [Listed; 8] = [
    Listed::new("apps/v1", "Deployment", "deployments", Owners::Any),
    Listed::new("apps/v1", "StatefulSet", "statefulsets", Owners::Any),
    Listed::new("apps/v1", "DaemonSet", "daemonsets", Owners::Any),
    Listed::new("batch/v1", "CronJob", "cronjobs", Owners::Any),
    Listed::new("batch/v1", "Job", "jobs", Owners::Unread),
    Listed::new("apps/v1", "ReplicaSet", "replicasets", Owners::Unread),
    Listed::new(
        "v1",
        "ReplicationController",
        "replicationcontrollers",
        Owners::Unread,
    ),
    Listed::new("v1", "Pod", "pods", Owners::None),
];

/// The metadata that the API server gives, which a pod does not have when the webhook sees it.
const GIVEN: [&str; 6] = [
    "creationTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

impl Listed {
    const fn new(
        api_version: &'static str,
        kind: &'static str,
        plural: &'static str,
        owners: Owners,
    ) -> Self {
        Self {
            api_version,
            kind,
            plural,
            owners,
        }
    }
}

/// What an object of a cluster stands for.
#[derive(Debug, PartialEq)]
pub(crate) enum Submitted {
    /// For itself, as it was submitted.
    Itself(Value),
    /// For nothing: its owner is read.
    OfOwner,
    /// For nothing, and nor does its owner, which is of this kind.
    OfUnread(String),
}

/// What an object stands for.
pub(crate) fn submitted(kind: Listed, object: Value) -> Submitted {
    let controller = match kind.owners {
        Owners::Any => None,
        Owners::Unread | Owners::None => Controller::of(&object),
    };
    if let Some(controller) = controller {
        if controller.is_read() || is_scaled_down(&object) {
            return Submitted::OfOwner;
        }
        if kind.owners == Owners::None {
            return Submitted::OfUnread(controller.kind.to_owned());
        }
    }
    let Some(mut object) = cleaned(kind.api_version, kind.kind, object) else {
        return Submitted::OfOwner;
    };
    if kind.kind == "Pod"
        && let Some(Value::Object(spec)) = object.get_mut("spec")
    {
        // From the scheduler, which comes after the webhook.
        spec.remove("nodeName");
    }
    Submitted::Itself(object)
}

/// Whether it makes no pods, like those that a rollout leaves behind.
fn is_scaled_down(object: &Value) -> bool {
    object.pointer("/spec/replicas") == Some(&0.into())
}

/// An item of a list without what only the cluster says of it.
pub(crate) fn cleaned(api_version: &str, kind: &str, mut object: Value) -> Option<Value> {
    let fields = object.as_object_mut()?;
    // A list does not say this of its items.
    fields.insert("apiVersion".to_owned(), api_version.into());
    fields.insert("kind".to_owned(), kind.into());
    fields.remove("status");
    if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
        metadata.retain(|field, _| !GIVEN.contains(&field.as_str()));
    }
    Some(object)
}

/// The controller of an object.
struct Controller<'o> {
    group: &'o str,
    kind: &'o str,
}

impl<'o> Controller<'o> {
    fn of(object: &'o Value) -> Option<Self> {
        let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
        let mut owners = owners.iter().filter_map(Value::as_object);
        let owner = owners.find(|owner| owner.get("controller") == Some(&true.into()))?;
        let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
        Some(Self {
            group: text("apiVersion").split_once('/').map_or("", |it| it.0),
            kind: text("kind"),
        })
    }

    /// Whether it stands for what it owns. A node does so for its static pods, which no webhook can change.
    fn is_read(&self) -> bool {
        let group = |api_version: &'static str| api_version.split_once('/').map_or("", |it| it.0);
        let mut kinds = KINDS.into_iter();
        kinds.any(|it| it.kind == self.kind && group(it.api_version) == self.group)
            || (self.group.is_empty() && self.kind == "Node")
            || [SelenosisApi::Seed, SelenosisApi::Split]
                .into_iter()
                .any(|api| {
                    let browser = SelenosisKind::Browser;
                    self.group == api.group(browser) && self.kind == browser.name()
                })
    }
}

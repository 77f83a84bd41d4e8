//! Which objects of a cluster are compared, and how they looked before they came into it.

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

/// A kind of objects with pods.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    owners: Owners,
}

/// Which objects of a kind stand for themselves.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Owners {
    /// All.
    Any,
    /// Those without a controller of this kind, which is read itself.
    Not(&'static str),
    /// Those without any controller.
    None,
}

/// All kinds. What has an owner that is read itself is left out, since it is made of its owner's template.
pub(crate) const KINDS: [Listed; 7] = [
    Listed::new("apps/v1", "Deployment", "deployments", Owners::Any),
    Listed::new("apps/v1", "StatefulSet", "statefulsets", Owners::Any),
    Listed::new("apps/v1", "DaemonSet", "daemonsets", Owners::Any),
    Listed::new("batch/v1", "CronJob", "cronjobs", Owners::Any),
    Listed::new("batch/v1", "Job", "jobs", Owners::Not("CronJob")),
    Listed::new("apps/v1", "ReplicaSet", "replicasets", Owners::None),
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

/// The object as it was submitted; none if its owner stands for it.
pub(crate) fn submitted(kind: Listed, object: Value) -> Option<Value> {
    let controller = controller(&object);
    let stands_for_itself = match (kind.owners, controller) {
        (Owners::Any, _) | (_, None) => true,
        (Owners::Not(owner), Some(controller)) => controller != owner,
        (Owners::None, Some(_)) => false,
    };
    if !stands_for_itself {
        return None;
    }
    let mut object = cleaned(kind.api_version, kind.kind, object)?;
    if kind.kind == "Pod"
        && let Some(Value::Object(spec)) = object.get_mut("spec")
    {
        // From the scheduler, which comes after the webhook.
        spec.remove("nodeName");
    }
    Some(object)
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

/// The kind of an object's controller.
fn controller(object: &Value) -> Option<&str> {
    let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
    let is_controller = |owner: &&Map<String, Value>| owner.get("controller") == Some(&true.into());
    let mut controllers = owners
        .iter()
        .filter_map(Value::as_object)
        .filter(is_controller);
    controllers.next()?.get("kind")?.as_str()
}

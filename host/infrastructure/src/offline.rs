//! What an operator would send for a Cluster in a file.
//!
//! All of it is pure. A file has no UID, so [`UID`] takes its place in the name of an infrastructure.

use podloom_api::ClusterObject;
use podloom_api::names::infrastructure::INFRASTRUCTURE_PREFIX;
use podloom_engine::finding::Finding;
use serde_json::Value;

use super::template::{self, Comparison};
use super::validate;

/// Stands for the UID of a Cluster.
pub const UID: &str = "<uid>";

/// What an operator would send to the Infrastructure Manager for a Cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Nothing: the cluster exists already, and is only registered.
    Registered,
    /// Nothing: it has this template.
    Same,
    /// Nothing: what is gone from the template may stay there.
    Local,
    /// The first template, with the name of the infrastructure.
    First(Value),
    /// A changed template, with the name of the infrastructure.
    Update {
        /// The template. Nodes that were removed are in it, with no machines.
        template: Value,
        /// The names of these nodes. They cannot be used again.
        retired: Vec<String>,
    },
    /// Nothing: the Infrastructure Manager would ignore a part of the change.
    Unsupported(Vec<Finding>),
}

/// Returns what would be sent for a Cluster. Without a previous version, nothing was sent for it yet.
///
/// The previous version may be a manifest, or what the API server has: its status says what was sent, and which names are used up.
pub fn request(cluster: &ClusterObject, previous: Option<&ClusterObject>) -> Request {
    let Some(wanted) = &cluster.spec.tosca else {
        return Request::Registered;
    };
    let wanted = template::canonical(wanted);
    let Some(applied) = previous.and_then(applied) else {
        return Request::First(named(&wanted));
    };
    let retired = validate::retired(previous.and_then(|it| it.status.as_ref()));
    match template::compare(&applied, &wanted, &retired) {
        Comparison::Same => Request::Same,
        Comparison::LocalOnly => Request::Local,
        Comparison::Update { sent, retired } => Request::Update {
            template: named(&sent),
            retired,
        },
        Comparison::Unsupported(changes) => Request::Unsupported(validate::ignored(&changes)),
    }
}

/// The template that the Infrastructure Manager has. If an operator has seen the Cluster, only the status knows.
fn applied(cluster: &ClusterObject) -> Option<Value> {
    let status = cluster.status.as_ref();
    let template = match status.filter(|status| status.state.is_some()) {
        Some(status) => &status.last_applied_tosca,
        None => &cluster.spec.tosca,
    };
    Some(template::canonical(template.as_ref()?))
}

fn named(template: &Value) -> Value {
    template::named(template, &format!("{INFRASTRUCTURE_PREFIX}{UID}"))
}

#[cfg(test)]
mod tests;

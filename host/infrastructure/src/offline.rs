//! Clusters, clouds and Infrastructure Managers in files: whether the API server would store them, and what an operator would send.
//!
//! All of it is pure. A file has no UID, so [`UID`] takes its place in the name of an infrastructure.

use std::collections::BTreeMap;

use podloom_api::names::infrastructure::INFRASTRUCTURE_PREFIX;
use podloom_api::{
    CloudObject, ClusterObject, GenericCloud, InfrastructureProviderObject, OpenStackCloud,
    OpenStackPassword,
};
use podloom_engine::finding::{FieldPath, Finding, Findings, Subject};
use serde_json::Value;

use super::template::{self, Comparison};
use super::validate::{self, ClusterAround};

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

/// Checks a Cluster as the API server, its rules and the webhook would. With a previous version, also what cannot be changed.
pub fn cluster(
    new: &ClusterObject,
    previous: Option<&ClusterObject>,
    around: ClusterAround,
) -> Findings {
    let broken = broken(&CLUSTER, new, previous);
    with_rules(broken, validate::cluster(new, None, around))
}

/// Checks a Cloud or a GlobalCloud in the same way.
pub fn cloud(new: &CloudObject, previous: Option<&CloudObject>) -> Findings {
    let broken = broken(&CLOUD, new, previous);
    with_rules(broken, validate::cloud(new, None))
}

/// Checks an InfrastructureProvider or a GlobalInfrastructureProvider in the same way.
pub fn provider(
    new: &InfrastructureProviderObject,
    previous: Option<&InfrastructureProviderObject>,
) -> Findings {
    let broken = broken(&PROVIDER, new, previous);
    with_rules(broken, validate::provider(new, None))
}

fn with_rules(broken: Vec<Finding>, mut findings: Findings) -> Findings {
    findings.refusals.splice(0..0, broken);
    findings
}

// The rules of the kinds' definitions, for files: the API server evaluates them in CEL, and here it is not asked.
//
// A test compares the messages with those of the definitions, so no rule can be forgotten here.

/// A rule of a kind.
struct Rule<K> {
    /// The field that it is about.
    field: &'static str,
    /// What the API server says if it is broken.
    message: &'static str,
    /// Whether an object follows it. The second one is what is stored.
    holds: fn(&K, Option<&K>) -> bool,
}

/// Returns the rules that an object breaks.
fn broken<K>(rules: &[Rule<K>], new: &K, old: Option<&K>) -> Vec<Finding> {
    let broken = rules.iter().filter(|rule| !(rule.holds)(new, old));
    let finding = |rule: &Rule<K>| {
        let field = FieldPath::dotted(rule.field);
        Finding::at(field, &rule.message, Subject::Problem)
    };
    broken.map(finding).collect()
}

const ADOPTED: &str = "spec.adoptInfrastructureId";
const AUTH: &str = "spec.openstack.auth";
const PARAMETERS: &str = "spec.generic.parameters";
const SECRET_PARAMETERS: &str = "spec.generic.secretParameters";

const NAMES: &str =
    "names of parameters have at most 63 letters, digits and underscores, and no digit first";
const RESERVED: &str = "id, type and host are no parameters: type and host are fields beside them, and the operator sets id";

/// How many characters the name of a Cluster has at most.
const CLUSTER_NAME_MAX: usize = 63;
/// How many characters the name of a parameter has at most.
const PARAMETER_NAME_MAX: usize = 63;

/// The rules of Clusters.
const CLUSTER: [Rule<ClusterObject>; 8] = [
    Rule {
        field: "metadata.name",
        message: "the name has at most 63 characters, use a shorter one",
        holds: |new, _| {
            let name = new.metadata.name.as_deref().unwrap_or_default();
            name.chars().count() <= CLUSTER_NAME_MAX
        },
    },
    Rule {
        field: "spec.cloudRef",
        message: "spec.cloudRef cannot be changed while machines run: delete this Cluster and create another",
        holds: |new, old| {
            let running = old.filter(|old| {
                let status = old.status.as_ref();
                status.is_some_and(|status| status.running_on.is_some())
            });
            running.is_none_or(|old| new.spec.cloud_ref == old.spec.cloud_ref)
        },
    },
    Rule {
        field: "spec",
        message: "give exactly one of tosca and kubeconfigSecretRef",
        holds: |new, _| new.spec.tosca.is_some() != new.spec.kubeconfig_secret_ref.is_some(),
    },
    Rule {
        field: "spec",
        message: "tosca cannot be exchanged for kubeconfigSecretRef, nor the other way round: create another Cluster",
        holds: |new, old| {
            old.is_none_or(|old| new.spec.tosca.is_some() == old.spec.tosca.is_some())
        },
    },
    Rule {
        field: "spec.cloudRef",
        message: "cloudRef needs tosca: a registered cluster runs on no cloud of ours",
        holds: |new, _| new.spec.cloud_ref.is_none() || new.spec.tosca.is_some(),
    },
    Rule {
        field: ADOPTED,
        message: "adoptInfrastructureId needs tosca",
        holds: |new, _| new.spec.adopt_infrastructure_id.is_none() || new.spec.tosca.is_some(),
    },
    Rule {
        field: ADOPTED,
        message: "adoptInfrastructureId cannot be changed, added or removed: create another Cluster",
        holds: |new, old| {
            let id = &new.spec.adopt_infrastructure_id;
            old.is_none_or(|old| *id == old.spec.adopt_infrastructure_id)
        },
    },
    Rule {
        field: "spec.kubeconfigSecretName",
        message: "kubeconfigSecretName cannot be changed, added or removed: create another Cluster",
        holds: |new, old| {
            let name = &new.spec.kubeconfig_secret_name;
            old.is_none_or(|old| *name == old.spec.kubeconfig_secret_name)
        },
    },
];

/// The rules of Clouds and GlobalClouds.
const CLOUD: [Rule<CloudObject>; 15] = [
    Rule {
        field: "spec",
        message: "give exactly one of openstack and generic",
        holds: |new, _| new.spec.openstack.is_some() != new.spec.generic.is_some(),
    },
    Rule {
        field: "spec",
        message: "openstack cannot be exchanged for generic, nor the other way round: machines would be lost; create another cloud",
        holds: |new, old| {
            old.is_none_or(|old| new.spec.openstack.is_some() == old.spec.openstack.is_some())
        },
    },
    Rule {
        field: "spec.openstack.url",
        message: "url cannot be changed: machines would be lost; create another cloud",
        holds: |new, old| keeps(new, old, openstack, |new, old| new.url == old.url),
    },
    Rule {
        field: AUTH,
        message: "give exactly one of password and applicationCredential",
        holds: |new, _| {
            openstack(new).is_none_or(|it| {
                it.auth.password.is_some() != it.auth.application_credential.is_some()
            })
        },
    },
    Rule {
        field: AUTH,
        message: "password cannot be exchanged for applicationCredential, nor the other way round: machines would be lost; create another cloud",
        holds: |new, old| {
            keeps(new, old, openstack, |new, old| {
                new.auth.password.is_some() == old.auth.password.is_some()
            })
        },
    },
    Rule {
        field: "spec.openstack.auth.password.projectName",
        message: "projectName cannot be changed: machines would be lost; create another cloud",
        holds: |new, old| {
            keeps(new, old, password, |new, old| {
                new.project_name == old.project_name
            })
        },
    },
    Rule {
        field: "spec.openstack.auth.password.identityVersion",
        message: "identityVersion cannot be changed: machines would be lost; create another cloud",
        holds: |new, old| {
            keeps(new, old, password, |new, old| {
                new.identity_version == old.identity_version
            })
        },
    },
    Rule {
        field: "spec.generic.type",
        message: "this type is no cloud",
        holds: |new, _| {
            let accounts = ["InfrastructureManager", "Vault", "VMRC", "EGIIS"];
            generic(new).is_none_or(|it| !accounts.contains(&it.type_.as_str()))
        },
    },
    Rule {
        field: "spec.generic.type",
        message: "type cannot be changed: machines would be lost; create another cloud",
        holds: |new, old| keeps(new, old, generic, |new, old| new.type_ == old.type_),
    },
    Rule {
        field: "spec.generic.host",
        message: "host cannot be changed, added or removed: machines would be lost; create another cloud",
        holds: |new, old| keeps(new, old, generic, |new, old| new.host == old.host),
    },
    Rule {
        field: SECRET_PARAMETERS,
        message: "a name can be in parameters or in secretParameters, not in both",
        holds: |new, _| {
            let parts = generic(new).and_then(|it| {
                let secret = it.secret_parameters.as_ref()?;
                Some((it.parameters.as_ref()?, secret))
            });
            parts.is_none_or(|(plain, secret)| plain.keys().all(|name| !secret.contains_key(name)))
        },
    },
    Rule {
        field: PARAMETERS,
        message: NAMES,
        holds: |new, _| generic(new).is_none_or(|it| all(it.parameters.as_ref(), is_name)),
    },
    Rule {
        field: PARAMETERS,
        message: RESERVED,
        holds: |new, _| generic(new).is_none_or(|it| all(it.parameters.as_ref(), is_free)),
    },
    Rule {
        field: SECRET_PARAMETERS,
        message: NAMES,
        holds: |new, _| generic(new).is_none_or(|it| all(it.secret_parameters.as_ref(), is_name)),
    },
    Rule {
        field: SECRET_PARAMETERS,
        message: RESERVED,
        holds: |new, _| generic(new).is_none_or(|it| all(it.secret_parameters.as_ref(), is_free)),
    },
];

/// The rules of InfrastructureProviders and GlobalInfrastructureProviders.
const PROVIDER: [Rule<InfrastructureProviderObject>; 3] = [
    Rule {
        field: "spec.im",
        message: "give exactly one of basic and tokenSecretRef",
        holds: |new, _| new.spec.im.basic.is_some() != new.spec.im.token_secret_ref.is_some(),
    },
    Rule {
        field: "spec.im",
        message: "basic cannot be exchanged for tokenSecretRef, nor the other way round: infrastructures belong to the account; create another provider",
        holds: |new, old| {
            old.is_none_or(|old| new.spec.im.basic.is_some() == old.spec.im.basic.is_some())
        },
    },
    Rule {
        field: "spec.im.basic.username",
        message: "basic.username cannot be changed: infrastructures belong to the account; create another provider",
        holds: |new, old| {
            keeps(
                new,
                old,
                |it| it.spec.im.basic.as_ref(),
                |new, old| new.username == old.username,
            )
        },
    },
];

/// Whether a part is the same in some respect. If one of the two lacks the part, other rules decide.
fn keeps<K, P>(
    new: &K,
    old: Option<&K>,
    part: fn(&K) -> Option<&P>,
    is_kept: fn(&P, &P) -> bool,
) -> bool {
    match (part(new), old.and_then(part)) {
        (Some(new), Some(old)) => is_kept(new, old),
        _ => true,
    }
}

fn openstack(cloud: &CloudObject) -> Option<&OpenStackCloud> {
    cloud.spec.openstack.as_ref()
}

fn password(cloud: &CloudObject) -> Option<&OpenStackPassword> {
    openstack(cloud)?.auth.password.as_ref()
}

fn generic(cloud: &CloudObject) -> Option<&GenericCloud> {
    cloud.spec.generic.as_ref()
}

/// Whether all names of a map are so.
fn all<V>(map: Option<&BTreeMap<String, V>>, is: fn(&str) -> bool) -> bool {
    map.is_none_or(|map| map.keys().all(|name| is(name)))
}

/// Whether the name of a parameter has a form that an Infrastructure Manager accepts.
fn is_name(name: &str) -> bool {
    let is_inner = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let is_first = |char: char| is_inner(char) && !char.is_ascii_digit();
    name.len() <= PARAMETER_NAME_MAX && name.starts_with(is_first) && name.chars().all(is_inner)
}

/// Whether a name can be that of a parameter, and is no field beside the parameters.
fn is_free(name: &str) -> bool {
    !["id", "type", "host"].contains(&name)
}

#[cfg(test)]
mod tests;

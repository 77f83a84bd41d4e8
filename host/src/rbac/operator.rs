//! The rights of the operator itself.

use podloom_api::SelenosisApi;
use podloom_controllers::duties::{GivenNames, Need, Right, RightScope, Row};

use super::text::{self, Account, Metadata, Role, RoleKind, Rule};

/// Where the operator is installed, and what it watches.
pub(super) struct Installation<'a> {
    pub(super) api: SelenosisApi,
    /// The watched namespaces; none means all.
    pub(super) watched: &'a [&'a str],
    /// The operator's own namespace.
    pub(super) own: &'a str,
    /// The namespace of the Secrets of cluster-scoped objects.
    pub(super) secrets: &'a str,
    /// The namespace of its Leases.
    pub(super) lease_namespace: &'a str,
    /// The names that the installation gives.
    pub(super) names: GivenNames<'a>,
}

/// The ServiceAccount of a duty, its roles and their bindings.
pub(super) fn manifests(row: &'static Row, installation: &Installation<'_>) -> String {
    let name = row.object_name(&installation.names);
    let account = Account {
        name: &name,
        namespace: installation.own,
    };
    let mut documents = vec![text::service_account(&account)];
    for role in roles(row, installation) {
        documents.push(text::role(&role));
        documents.push(text::binding(&role, &account));
    }
    documents.extend(aggregated(row, installation, &account));
    text::file(&header(row, installation), &documents)
}

/// The role that users fill, and its bindings: in the watched namespaces, or in all.
fn aggregated(row: &Row, installation: &Installation<'_>, account: &Account<'_>) -> Vec<String> {
    let Some((name, role)) = row.aggregated_role(&installation.names) else {
        return Vec::new();
    };
    let metadata = |namespace| Metadata {
        name: name.clone(),
        namespace,
        app: account.name.to_owned(),
        aggregate_to: None,
    };
    let comment = [
        format!("The operator {}. There are none at first:", role.why),
        "Kubernetes fills in the rules of all ClusterRoles with this label.".to_owned(),
    ];
    let namespaces: Vec<Option<&str>> = match installation.watched {
        [] => vec![None],
        some => some.iter().copied().map(Some).collect(),
    };
    let bindings = namespaces
        .into_iter()
        .map(|namespace| text::binding_to(RoleKind::Cluster, &metadata(namespace), account));
    std::iter::once(text::aggregated_role(&metadata(None), &comment, role.label))
        .chain(bindings)
        .collect()
}

fn header(row: &Row, installation: &Installation<'_>) -> Vec<String> {
    let mut header = vec![format!(
        "All rights that the operator needs for its duty {}, as printed by podloom rbac.",
        row.name
    )];
    for right in row
        .all_rights()
        .filter(|right| is_left_out(right, installation))
    {
        header.push(format!(
            "Left out, because only a ClusterRole can grant it: to {} {}. Without this right {}.",
            right.verbs.join(" and "),
            right.resource,
            right.need.without().unwrap_or_default()
        ));
    }
    header
}

fn roles<'a>(row: &'static Row, installation: &Installation<'a>) -> Vec<Role<'a>> {
    let mut roles = Vec::new();
    let mut namespaces = vec![None];
    namespaces.extend(installation.watched.iter().copied().map(Some));
    for right in row.all_rights() {
        let only = match right.scope {
            RightScope::Namespace(name) => name,
            RightScope::OwnNamespace => installation.own,
            RightScope::GlobalSecrets => installation.secrets,
            _ => continue,
        };
        if !namespaces.contains(&Some(only)) {
            namespaces.push(Some(only));
        }
    }
    for namespace in namespaces {
        let rights = rights_in(row, installation, namespace);
        roles.extend(by_owner(row, installation, &rights, namespace));
    }
    let lease = |right: &&Right| right.scope == RightScope::LeaseNamespace;
    let lease: Vec<&Right> = row.all_rights().filter(lease).collect();
    if !lease.is_empty() {
        let name = format!("{}-leader", row.object_name(&installation.names));
        let rules = lease
            .iter()
            .map(|right| lease_rule(row, installation, right));
        let rules = rules.collect();
        let namespace = Some(installation.lease_namespace);
        roles.push(role(row, installation, name, namespace, rules));
    }
    roles
}

/// The rights to grant in a namespace, or in the whole cluster if it is none: each once. Those for the Lease are apart.
///
/// If all namespaces are watched, a ClusterRole has the rights for single namespaces too: kustomize moves every Role to the namespace
/// of the operator.
fn rights_in(
    row: &Row,
    installation: &Installation<'_>,
    namespace: Option<&str>,
) -> Vec<&'static Right> {
    let is_granted = |right: &&Right| match right.scope {
        RightScope::AllNamespaces => namespace.is_none(),
        RightScope::Cluster => namespace.is_none() && !is_left_out(right, installation),
        RightScope::WatchedNamespaces | RightScope::Namespace(_) | RightScope::GlobalSecrets
            if installation.watched.is_empty() =>
        {
            namespace.is_none()
        }
        RightScope::WatchedNamespaces => {
            namespace.is_some_and(|name| installation.watched.contains(&name))
        }
        RightScope::Namespace(name) => namespace == Some(name),
        RightScope::OwnNamespace => namespace == Some(installation.own),
        RightScope::GlobalSecrets => namespace == Some(installation.secrets),
        RightScope::LeaseNamespace => false,
    };
    let mut rights: Vec<&Right> = Vec::new();
    for right in row.all_rights().filter(is_granted) {
        let same = |known: &&Right| {
            Right {
                scope: right.scope,
                ..**known
            } == *right
        };
        if !rights.iter().any(same) {
            rights.push(right);
        }
    }
    rights
}

/// Splits the rights into two roles: those for Kubernetes' own kinds, and those for the duty's kinds, whose API groups depend on the
/// installation.
fn by_owner<'a>(
    row: &Row,
    installation: &Installation<'_>,
    rights: &[&Right],
    namespace: Option<&'a str>,
) -> Vec<Role<'a>> {
    let is_own = |right: &Right| {
        let mut kinds = row.kinds.iter();
        kinds.any(|kind| (kind.group, kind.plural) == (right.group, right.resource))
    };
    let of = |own: bool| {
        let rights = rights.iter().filter(|right| is_own(right) == own);
        rights
            .map(|right| rule(installation, right))
            .collect::<Vec<_>>()
    };
    let names = &installation.names;
    [
        (row.object_name(names), of(false)),
        (row.kinds_role_name(names), of(true)),
    ]
    .into_iter()
    .filter(|(_, rules)| !rules.is_empty())
    .map(|(name, rules)| role(row, installation, name, namespace, rules))
    .collect()
}

fn role<'a>(
    row: &Row,
    installation: &Installation<'_>,
    name: String,
    namespace: Option<&'a str>,
    rules: Vec<Rule>,
) -> Role<'a> {
    Role {
        kind: match namespace {
            Some(_) => RoleKind::Namespaced,
            None => RoleKind::Cluster,
        },
        metadata: Metadata {
            name,
            namespace,
            app: row.object_name(&installation.names),
            aggregate_to: None,
        },
        rules,
    }
}

fn rule(installation: &Installation<'_>, right: &Right) -> Rule {
    let resource = match right.subresource {
        None => right.resource.to_owned(),
        Some(subresource) => format!("{}/{subresource}", right.resource),
    };
    let mut comment = vec![format!("The operator {}.", right.why)];
    let without = right.need.without();
    comment.extend(without.map(|without| format!("Without this right {without}.")));
    Rule {
        comment,
        group: right.group.name(installation.api),
        resources: vec![resource],
        name: right
            .object
            .map(|object| object.name(installation.names.webhook)),
        verbs: right.verbs.to_vec(),
    }
}

/// A rule for the Lease. `create` cannot be limited to a name: the API server does not know the name when it checks the right.
fn lease_rule(row: &Row, installation: &Installation<'_>, right: &Right) -> Rule {
    let is_nameless = right.verbs.contains(&"create");
    Rule {
        name: (!is_nameless).then(|| row.lease_name(&installation.names)),
        ..rule(installation, right)
    }
}

/// An installation that is limited to namespaces gets no ClusterRole for optional rights.
fn is_left_out(right: &Right, installation: &Installation<'_>) -> bool {
    let is_optional = right.need != Need::Required;
    is_optional && right.scope == RightScope::Cluster && !installation.watched.is_empty()
}

#[cfg(test)]
mod tests;

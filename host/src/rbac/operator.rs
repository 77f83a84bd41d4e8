//! The rights of the operator itself.

use podloom_controllers::duties::{Need, Right, RightScope, Row};

use super::text::{self, Metadata, Role, RoleKind, Rule};
use crate::cli::RbacArguments;

/// The ServiceAccount of a duty, its roles and their bindings.
pub(super) fn manifests(row: &'static Row, arguments: &RbacArguments) -> String {
    let (account, own) = (
        row.object_name(&arguments.names()),
        arguments.operator_namespace.as_str(),
    );
    let mut documents = vec![text::service_account(&account, own)];
    for role in roles(row, arguments) {
        documents.push(text::role(&role));
        documents.push(text::binding(role.kind, &role.metadata, &[&account], own));
    }
    documents.extend(aggregated(row, arguments, &account));
    text::file(&header(row, arguments), &documents)
}

/// The role that users fill, and its bindings: in the watched namespaces, or in all.
fn aggregated(row: &Row, arguments: &RbacArguments, account: &str) -> Vec<String> {
    let Some((name, role)) = row.aggregated_role(&arguments.names()) else {
        return Vec::new();
    };
    let metadata = |namespace| Metadata {
        name: name.clone(),
        namespace,
        app: account.to_owned(),
        aggregate_to: None,
    };
    let comment = [
        format!("The operator {}. There are none at first:", role.why),
        "Kubernetes fills in the rules of all ClusterRoles with this label.".to_owned(),
    ];
    let namespaces: Vec<Option<&str>> = match arguments.namespaces().as_slice() {
        [] => vec![None],
        some => some.iter().copied().map(Some).collect(),
    };
    let own = &arguments.operator_namespace;
    let bindings = namespaces
        .into_iter()
        .map(|namespace| text::binding(RoleKind::Cluster, &metadata(namespace), &[account], own));
    std::iter::once(text::aggregated_role(&metadata(None), &comment, role.label))
        .chain(bindings)
        .collect()
}

fn header(row: &Row, arguments: &RbacArguments) -> Vec<String> {
    let mut header = vec![format!(
        "All rights that the operator needs for its duty {}, as printed by podloom rbac.",
        row.name
    )];
    for right in row
        .all_rights()
        .filter(|right| is_left_out(right, arguments))
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

fn roles<'a>(row: &'static Row, arguments: &'a RbacArguments) -> Vec<Role<'a>> {
    let mut roles = Vec::new();
    let mut namespaces = vec![None];
    namespaces.extend(arguments.namespaces().into_iter().map(Some));
    for right in row.all_rights() {
        let only = match right.scope {
            RightScope::Namespace(name) => name,
            RightScope::OwnNamespace => arguments.operator_namespace.as_str(),
            RightScope::GlobalSecrets => arguments.secret_namespace(),
            _ => continue,
        };
        if !namespaces.contains(&Some(only)) {
            namespaces.push(Some(only));
        }
    }
    for namespace in namespaces {
        let rights = rights_in(row, arguments, namespace);
        roles.extend(by_owner(row, arguments, &rights, namespace));
    }
    let lease = |right: &&Right| right.scope == RightScope::LeaseNamespace;
    let lease: Vec<&Right> = row.all_rights().filter(lease).collect();
    if !lease.is_empty() {
        let name = format!("{}-leader", row.object_name(&arguments.names()));
        let rules = lease.iter().map(|right| lease_rule(row, arguments, right));
        let rules = rules.collect();
        let namespace = Some(arguments.lease_namespace());
        roles.push(role(row, arguments, name, namespace, rules));
    }
    roles
}

/// The rights to grant in a namespace, or in the whole cluster if it is none: each once. Those for the Lease are apart.
///
/// If all namespaces are watched, a ClusterRole has the rights for single namespaces too: kustomize moves every Role to the namespace
/// of the operator.
fn rights_in(row: &Row, arguments: &RbacArguments, namespace: Option<&str>) -> Vec<&'static Right> {
    let watched = arguments.namespaces();
    let is_granted = |right: &&Right| match right.scope {
        RightScope::AllNamespaces => namespace.is_none(),
        RightScope::Cluster => namespace.is_none() && !is_left_out(right, arguments),
        RightScope::WatchedNamespaces | RightScope::Namespace(_) | RightScope::GlobalSecrets
            if watched.is_empty() =>
        {
            namespace.is_none()
        }
        RightScope::WatchedNamespaces => namespace.is_some_and(|name| watched.contains(&name)),
        RightScope::Namespace(name) => namespace == Some(name),
        RightScope::OwnNamespace => namespace == Some(&arguments.operator_namespace),
        RightScope::GlobalSecrets => namespace == Some(arguments.secret_namespace()),
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
    arguments: &RbacArguments,
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
            .map(|right| rule(arguments, right))
            .collect::<Vec<_>>()
    };
    let names = arguments.names();
    [
        (row.object_name(&names), of(false)),
        (row.kinds_role_name(&names), of(true)),
    ]
    .into_iter()
    .filter(|(_, rules)| !rules.is_empty())
    .map(|(name, rules)| role(row, arguments, name, namespace, rules))
    .collect()
}

fn role<'a>(
    row: &Row,
    arguments: &RbacArguments,
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
            app: row.object_name(&arguments.names()),
            aggregate_to: None,
        },
        rules,
    }
}

fn rule(arguments: &RbacArguments, right: &Right) -> Rule {
    let resource = match right.subresource {
        None => right.resource.to_owned(),
        Some(subresource) => format!("{}/{subresource}", right.resource),
    };
    let mut comment = vec![format!("The operator {}.", right.why)];
    let without = right.need.without();
    comment.extend(without.map(|without| format!("Without this right {without}.")));
    Rule {
        comment,
        group: right.group.name(arguments.selenosis_api),
        resources: vec![resource],
        name: right
            .object
            .map(|object| object.name(&arguments.webhook_name)),
        verbs: right.verbs.to_vec(),
    }
}

/// A rule for the Lease. `create` cannot be limited to a name: the API server does not know the name when it checks the right.
fn lease_rule(row: &Row, arguments: &RbacArguments, right: &Right) -> Rule {
    let is_nameless = right.verbs.contains(&"create");
    Rule {
        name: (!is_nameless).then(|| row.lease_name(&arguments.names())),
        ..rule(arguments, right)
    }
}

/// An installation that is limited to namespaces gets no ClusterRole for optional rights.
fn is_left_out(right: &Right, arguments: &RbacArguments) -> bool {
    let is_optional = right.need != Need::Required;
    is_optional && right.scope == RightScope::Cluster && !arguments.namespaces().is_empty()
}

#[cfg(test)]
mod tests;

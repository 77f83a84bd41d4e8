//! What the operator itself may do.

use podloom_api::SelenosisApi;
use podloom_controllers::duties::{Need, Right, RightScope, Row};

use super::text::{self, Account, Metadata, Role, RoleKind, Rule};

/// Where the operator works.
pub(super) struct Scope<'a> {
    pub(super) api: SelenosisApi,
    /// The namespaces that are watched; none means all.
    pub(super) watched: &'a [&'a str],
    /// The namespace that it runs in.
    pub(super) own: &'a str,
    /// The namespace of its Lease.
    pub(super) lease_namespace: &'a str,
    /// The name of the first duty's Lease, which those of the others begin with.
    pub(super) lease_name: &'a str,
}

/// A duty's account, its roles and their bindings.
pub(super) fn manifests(row: &'static Row, scope: &Scope<'_>) -> String {
    let name = row.object_name();
    let account = Account {
        name: &name,
        namespace: scope.own,
    };
    let mut documents = vec![text::service_account(&account)];
    for role in roles(row, scope) {
        documents.push(text::role(&role));
        documents.push(text::binding(&role, &account));
    }
    text::file(&header(row, scope), &documents)
}

fn header(row: &Row, scope: &Scope<'_>) -> Vec<String> {
    let mut header = vec![format!(
        "What the operator may do for its duty {}, and nothing else; podloom rbac prints it.",
        row.name
    )];
    for right in row.all_rights().filter(|right| is_left_out(right, scope)) {
        header.push(format!(
            "It may not {} {}, which only a ClusterRole can allow: {}.",
            right.verbs.join(" and "),
            right.resource,
            without(right).unwrap_or_default()
        ));
    }
    header
}

fn roles<'a>(row: &'static Row, scope: &Scope<'a>) -> Vec<Role<'a>> {
    let mut roles = Vec::new();
    let (everywhere, watched): (Vec<&Right>, Vec<&Right>) = row
        .all_rights()
        .filter(|right| right.scope != RightScope::LeaseNamespace && !is_left_out(right, scope))
        .partition(|right| right.scope == RightScope::Cluster || scope.watched.is_empty());
    roles.extend(by_owner(row, scope.api, &everywhere, None));
    for namespace in scope.watched {
        roles.extend(by_owner(row, scope.api, &watched, Some(namespace)));
    }
    let lease = |right: &&Right| right.scope == RightScope::LeaseNamespace;
    let lease: Vec<&Right> = row.all_rights().filter(lease).collect();
    if !lease.is_empty() {
        let name = format!("{}-leader", row.object_name());
        let rules = lease.iter().map(|right| lease_rule(row, scope, right));
        roles.push(role(
            row,
            name,
            Some(scope.lease_namespace),
            rules.collect(),
        ));
    }
    roles
}

/// Kubernetes' own kinds and the duty's are in roles of their own: the groups of the latter are an installation's choice.
fn by_owner<'a>(
    row: &Row,
    api: SelenosisApi,
    rights: &[&Right],
    namespace: Option<&'a str>,
) -> Vec<Role<'a>> {
    let is_own = |right: &Right| {
        let mut kinds = row.kinds.iter();
        kinds.any(|kind| (kind.group, kind.plural) == (right.group, right.resource))
    };
    let of = |own: bool| {
        let rights = rights.iter().filter(|right| is_own(right) == own);
        rights.map(|right| rule(api, right)).collect::<Vec<_>>()
    };
    [
        (row.object_name(), of(false)),
        (row.kinds_role_name(), of(true)),
    ]
    .into_iter()
    .filter(|(_, rules)| !rules.is_empty())
    .map(|(name, rules)| role(row, name, namespace, rules))
    .collect()
}

fn role<'a>(row: &Row, name: String, namespace: Option<&'a str>, rules: Vec<Rule>) -> Role<'a> {
    Role {
        kind: match namespace {
            Some(_) => RoleKind::Namespaced,
            None => RoleKind::Cluster,
        },
        metadata: Metadata {
            name,
            namespace,
            app: row.object_name(),
            aggregate_to: None,
        },
        rules,
    }
}

fn rule(api: SelenosisApi, right: &Right) -> Rule {
    let resource = match right.subresource {
        None => right.resource.to_owned(),
        Some(subresource) => format!("{}/{subresource}", right.resource),
    };
    let mut comment = vec![format!("The operator {}.", right.why)];
    comment.extend(without(right).map(|without| format!("Without this right {without}.")));
    Rule {
        comment,
        group: right.group.name(api),
        resources: vec![resource],
        name: None,
        verbs: right.verbs.to_vec(),
    }
}

/// A right to create cannot be held to a name: it is not known when the right is checked.
fn lease_rule(row: &Row, scope: &Scope<'_>, right: &Right) -> Rule {
    let is_nameless = right.verbs.contains(&"create");
    Rule {
        name: row.lease_name(scope.lease_name).filter(|_| !is_nameless),
        ..rule(scope.api, right)
    }
}

/// What is missing without a right, if the operator can do without.
fn without(right: &Right) -> Option<&'static str> {
    match right.need {
        Need::Required => None,
        Need::Optional(without) => Some(without),
    }
}

/// Who asks for namespaces wants no ClusterRole for what the operator can do without.
fn is_left_out(right: &Right, scope: &Scope<'_>) -> bool {
    let is_optional = right.need != Need::Required;
    is_optional && right.scope == RightScope::Cluster && !scope.watched.is_empty()
}

#[cfg(test)]
mod tests;

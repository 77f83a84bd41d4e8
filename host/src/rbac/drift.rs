//! The rights to look for drift.

use super::text::{self, Metadata, Role, RoleKind, Rule};

/// What is read, and what is not known without it.
const RULES: [(&str, &[&str], &str, &str); 6] = [
    (
        "admissionregistration.k8s.io",
        &["mutatingwebhookconfigurations"],
        "get",
        "Which pods the webhook selects. Without this right no pod is known to have missed the chain.",
    ),
    (
        "",
        &["namespaces"],
        "list",
        "The labels of namespaces. Without this right only their names are known.",
    ),
    (
        "",
        &["pods"],
        "list",
        "The pods. Without this right nothing is found.",
    ),
    (
        "apps",
        &["replicasets"],
        "list",
        "The Deployments of pods. Without this right their ReplicaSets are shown.",
    ),
    (
        "apps",
        &["deployments"],
        "list",
        "The stamps of Podloom's own Deployments. Without this right pods of tunnels may be unclear.",
    ),
    (
        "batch",
        &["jobs"],
        "list",
        "The CronJobs of pods. Without this right their Jobs are shown.",
    ),
];

/// A ClusterRole, bound to the account of the webhooks.
pub(super) fn manifests(webhook: &str, namespace: &str) -> String {
    let rules = RULES.iter().map(|&(group, resources, verb, comment)| Rule {
        comment: vec![comment.to_owned()],
        group,
        resources: resources.iter().map(|&it| it.to_owned()).collect(),
        name: (verb == "get").then(|| webhook.to_owned()),
        verbs: vec![verb],
    });
    let role = Role {
        kind: RoleKind::Cluster,
        metadata: Metadata {
            name: format!("{webhook}-drift"),
            app: webhook.to_owned(),
            ..Metadata::default()
        },
        rules: rules.collect(),
    };
    let header = [
        "The rights to look for drift, as printed by podloom rbac --for drift.".to_owned(),
        "They are for the webhooks; bind the ClusterRole to people who run podloom drift, too."
            .to_owned(),
    ];
    let binding = text::binding(role.kind, &role.metadata, webhook, namespace);
    let documents = [text::role(&role), binding];
    text::file(&header, &documents)
}

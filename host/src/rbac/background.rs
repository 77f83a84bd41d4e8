//! The rights of what the leader of the webhooks does in the background, each an option.

use podloom_api::names;
use podloom_controllers::duties::{Duty, GivenNames};

use super::text::{self, Metadata, Role, RoleKind, Rule};

/// Something that is done in the background, with rights of its own.
pub(super) struct Background {
    /// Whose rights these are, for `--for`; also the end of the names of role and binding.
    pub(super) name: &'static str,
    header: &'static [&'static str],
    /// The accounts of those who do it, and their own namespace for all that they may do; without them, it is the account of the
    /// webhooks.
    at_home: &'static [Duty],
    rules: &'static [Right],
}

struct Right {
    group: &'static str,
    resource: &'static str,
    /// Whether it is for the webhook configuration alone.
    is_named: bool,
    verbs: &'static [&'static str],
    /// What is read or written, and what does not work without it.
    comment: &'static str,
}

const fn right(
    group: &'static str,
    resource: &'static str,
    verbs: &'static [&'static str],
    comment: &'static str,
) -> Right {
    Right {
        group,
        resource,
        is_named: false,
        verbs,
        comment,
    }
}

/// Looking for drift.
pub(super) const DRIFT: Background = Background {
    name: "drift",
    at_home: &[],
    header: &[
        "The rights to look for drift, as printed by podloom rbac --for drift.",
        "They are for the webhooks; bind the ClusterRole to people who run podloom drift, too.",
    ],
    rules: &[
        Right {
            is_named: true,
            ..right(
                "admissionregistration.k8s.io",
                "mutatingwebhookconfigurations",
                &["get"],
                "Which pods the webhook selects. Without this right no pod is known to have missed the chain.",
            )
        },
        right(
            "",
            "namespaces",
            &["list"],
            "The labels of namespaces. Without this right only their names are known.",
        ),
        right(
            "",
            "pods",
            &["list"],
            "The pods. Without this right nothing is found.",
        ),
        right(
            "apps",
            "replicasets",
            &["list"],
            "The Deployments of pods. Without this right their ReplicaSets are shown.",
        ),
        right(
            "apps",
            "deployments",
            &["list"],
            "The stamps of Podloom's own Deployments. Without this right pods of tunnels may be unclear.",
        ),
        right(
            "batch",
            "jobs",
            &["list"],
            "The CronJobs of pods. Without this right their Jobs are shown.",
        ),
        right(
            names::rollout::GROUP,
            "chainexceptions",
            &["list"],
            "Which ephemeral containers are excepted. Without this right they are shown.",
        ),
    ],
};

/// Having pods replaced that wait at the gate.
pub(super) const GATE: Background = Background {
    name: "gate",
    at_home: &[],
    header: &[
        "The rights to have pods replaced that wait at the gate, as printed by podloom rbac --for gate.",
    ],
    rules: &[
        Right {
            is_named: true,
            ..right(
                "admissionregistration.k8s.io",
                "mutatingwebhookconfigurations",
                &["get"],
                "Which namespaces the webhook selects. Without this right no pod is evicted.",
            )
        },
        right(
            "",
            "namespaces",
            &["list"],
            "Which namespaces the webhook selects. Without this right no pod is evicted.",
        ),
        right(
            "",
            "pods",
            &["list"],
            "The pods that wait. Without this right none is found.",
        ),
        right(
            "",
            "pods/eviction",
            &["create"],
            "Evicts them, so that their controllers replace them. RBAC knows no gates: this right is for all pods.",
        ),
        right(
            "batch",
            "jobs",
            &["get"],
            "Whether a Job goes on if a pod of it is evicted. Without this right pods of Jobs go on waiting.",
        ),
        right(
            "events.k8s.io",
            "events",
            &["create", "patch"],
            "Writes Events about pods that were evicted, or that only a person can delete. Without this right there are none.",
        ),
    ],
};

/// Having pods replaced that missed the chain.
pub(super) const HEAL: Background = Background {
    name: "heal",
    at_home: &[],
    header: &[
        "The rights to have pods replaced that missed the chain, as printed by podloom rbac --for heal.",
        "They are for the webhooks; bind the ClusterRole to people who run podloom drift --repair, too.",
    ],
    rules: &[
        Right {
            is_named: true,
            ..right(
                "admissionregistration.k8s.io",
                "mutatingwebhookconfigurations",
                &["get"],
                "Which pods the webhook selects. Without this right no pod is evicted.",
            )
        },
        right(
            "",
            "namespaces",
            &["get", "list"],
            "Which namespaces the webhook selects, and which are to be left alone. Without this right no pod is evicted.",
        ),
        right(
            "",
            "pods",
            &["list"],
            "The pods. Without this right nothing is found.",
        ),
        right(
            "",
            "pods/eviction",
            &["create"],
            "Evicts them, so that their controllers replace them. RBAC knows no chain: this right is for all pods.",
        ),
        right(
            "",
            "replicationcontrollers",
            &["get"],
            "Whether all pods of a controller are ready. Without this right its pods are left alone.",
        ),
        right("apps", "replicasets", &["get"], "The same."),
        right("apps", "statefulsets", &["get"], "The same."),
        right("apps", "daemonsets", &["get"], "The same."),
        right(
            "batch",
            "jobs",
            &["get"],
            "Whether a Job goes on if a pod of it is evicted. Without this right pods of Jobs are left alone.",
        ),
        right(
            "events.k8s.io",
            "events",
            &["create", "patch"],
            "Writes Events about pods that were evicted, and about controllers at which it stopped. Without this right there are none.",
        ),
    ],
};

/// Following a ChainRollout.
pub(super) const ROLLOUT: Background = Background {
    name: "rollout",
    header: &[
        "The rights to follow a ChainRollout, as printed by podloom rbac --for rollout.",
        "They are for all that passes pods through the chain, in its own namespace.",
    ],
    at_home: &[Duty::Browser, Duty::Portal, Duty::Webhook],
    rules: &[
        right(
            names::rollout::GROUP,
            "chainrollouts",
            &["list", "watch"],
            "Which pods pass the candidate. Without this right none does.",
        ),
        right(
            names::rollout::GROUP,
            "chainrollouts/status",
            &["patch"],
            "Says which chains a replica has, and what it counted. Without this right no step is taken.",
        ),
    ],
};

/// The kinds of reports, and what is done with each: a name says which one may be changed, but not which one may be created.
const OPEN_REPORTS: &str = "openreports.io";
const WG_POLICY: &str = "wgpolicyk8s.io";
const TO_FIND: &[&str] = &["list", "create"];
const TO_CHANGE: &[&str] = &["get", "update", "delete"];

const fn own_report(group: &'static str, resource: &'static str) -> Right {
    Right {
        is_named: true,
        ..right(group, resource, TO_CHANGE, "Changes its own.")
    }
}

/// Writing reports.
pub(super) const REPORTS: Background = Background {
    name: "reports",
    at_home: &[],
    header: &[
        "The rights to write reports, as printed by podloom rbac --for reports.",
        "Those of the group that you do not use can be left out.",
    ],
    rules: &[
        right(
            OPEN_REPORTS,
            "reports",
            TO_FIND,
            "The reports of namespaces. Without this right there are none.",
        ),
        own_report(OPEN_REPORTS, "reports"),
        right(
            OPEN_REPORTS,
            "clusterreports",
            TO_FIND,
            "The report of the cluster. Without this right there is none.",
        ),
        own_report(OPEN_REPORTS, "clusterreports"),
        right(
            WG_POLICY,
            "policyreports",
            TO_FIND,
            "The same, for the other group.",
        ),
        own_report(WG_POLICY, "policyreports"),
        right(WG_POLICY, "clusterpolicyreports", TO_FIND, "The same."),
        own_report(WG_POLICY, "clusterpolicyreports"),
    ],
};

/// A role, bound to the account of the webhooks, or to those of several duties.
pub(super) fn manifests(of: &Background, webhook: &str, namespace: &str) -> String {
    let names = GivenNames {
        webhook,
        ..GivenNames::default()
    };
    let accounts = of.at_home.iter().map(|duty| duty.row().object_name(&names));
    let accounts: Vec<String> = match of.at_home {
        [] => vec![webhook.to_owned()],
        _ => accounts.collect(),
    };
    let accounts: Vec<&str> = accounts.iter().map(String::as_str).collect();
    let (kind, home) = match of.at_home {
        [] => (RoleKind::Cluster, None),
        _ => (RoleKind::Namespaced, Some(namespace)),
    };
    let rules = of.rules.iter().map(|right| Rule {
        comment: vec![right.comment.to_owned()],
        group: right.group,
        resources: vec![right.resource.to_owned()],
        name: right.is_named.then(|| webhook.to_owned()),
        verbs: right.verbs.to_vec(),
    });
    let role = Role {
        kind,
        metadata: Metadata {
            namespace: home,
            name: format!("{webhook}-{}", of.name),
            app: webhook.to_owned(),
            ..Metadata::default()
        },
        rules: rules.collect(),
    };
    let header: Vec<String> = of.header.iter().map(|&line| line.to_owned()).collect();
    let binding = text::binding(role.kind, &role.metadata, &accounts, namespace);
    let documents = [text::role(&role), binding];
    text::file(&header, &documents)
}

//! The rows of the table, and the rights that several of them share.

mod cleaner;
mod infrastructure;
mod rollout;

pub(super) use self::cleaner::CLEANER;
pub(super) use self::infrastructure::INFRASTRUCTURE;
pub(super) use self::rollout::ROLLOUT;

use podloom_api::{
    SelenosisApi, SelenosisKind, chain_exception_crd, crd, names, portal_expose_crd,
    tunnel_class_crd,
};

use super::{
    Chain, Group, Names, Need, Object, OwnKind, ResourceScope, Right, RightScope, Row, Switch,
    Writers,
};

pub(super) const BROWSER: Row = Row {
    name: "browser",
    switch: Switch::Controllers,
    names: Names::Plain,
    kinds: &[
        OwnKind {
            group: Group::Selenosis(SelenosisKind::Browser),
            version: SelenosisApi::VERSION,
            plural: SelenosisKind::Browser.plural(),
            scope: ResourceScope::Namespaced,
            definition: |api| crd(api, SelenosisKind::Browser),
            writers: Writers::Edit,
            is_optional: false,
            clients: &["get", "list", "watch", "create", "delete"],
        },
        OwnKind {
            group: Group::Selenosis(SelenosisKind::BrowserConfig),
            version: SelenosisApi::VERSION,
            plural: SelenosisKind::BrowserConfig.plural(),
            scope: ResourceScope::Namespaced,
            definition: |api| crd(api, SelenosisKind::BrowserConfig),
            writers: Writers::Admin,
            is_optional: false,
            clients: &[],
        },
    ],
    rights: &[
        Right {
            verbs: &["list", "watch", "patch", "delete"],
            why: "watches Browsers, sets their finalizer and labels, and deletes those that have ended",
            ..of_kind(SelenosisKind::Browser, None)
        },
        Right {
            verbs: &["patch"],
            why: "writes the status of Browsers",
            ..of_kind(SelenosisKind::Browser, Some("status"))
        },
        Right {
            verbs: &["update"],
            need: Need::Optional(
                "clusters with the admission plugin OwnerReferencesPermissionEnforcement reject the pods of Browsers",
            ),
            why: "sets a Browser as the owner of its pod, in a way that blocks its deletion",
            ..of_kind(SelenosisKind::Browser, Some("finalizers"))
        },
        Right {
            verbs: &["list", "watch", "patch"],
            why: "reads BrowserConfigs, and removes an old finalizer from them",
            ..of_kind(SelenosisKind::BrowserConfig, None)
        },
        Right {
            verbs: &["patch"],
            why: "writes the status of BrowserConfigs",
            ..of_kind(SelenosisKind::BrowserConfig, Some("status"))
        },
        Right {
            verbs: &["get", "list", "watch", "create", "delete"],
            why: "creates, watches and deletes the pods of Browsers",
            ..fixed("", "pods", RightScope::WatchedNamespaces)
        },
        Right {
            verbs: &["patch"],
            need: Need::Optional("no Browser takes a warm pod"),
            why: "gives a warm pod to the Browser that takes it: owner, labels and annotations",
            ..fixed("", "pods", RightScope::WatchedNamespaces)
        },
        Right {
            subresource: Some("resize"),
            verbs: &["patch"],
            need: Need::Optional("no Browser takes a warm pod that waits with other resources"),
            why: "gives a warm pod the resources of the session that takes it",
            ..fixed("", "pods", RightScope::WatchedNamespaces)
        },
        Right {
            verbs: &["create", "patch"],
            need: Need::Optional("no session of a BrowserConfig with a networkPolicy gets its pod"),
            why: "creates the NetworkPolicies of sessions, and of the pods that wait for one",
            ..fixed(
                "networking.k8s.io",
                "networkpolicies",
                RightScope::WatchedNamespaces,
            )
        },
    ],
    aggregated: None,
    chain: Chain::Needed,
};

const PORTAL_GROUP: Group = Group::Fixed(names::portal::GROUP);

pub(super) const PORTAL: Row = Row {
    name: "portal",
    switch: Switch::Controllers,
    names: Names::WithDuty,
    kinds: &[
        OwnKind {
            group: PORTAL_GROUP,
            version: names::portal::VERSION,
            plural: "portalexposes",
            scope: ResourceScope::Namespaced,
            definition: |_| portal_expose_crd(),
            writers: Writers::Edit,
            is_optional: false,
            clients: &[],
        },
        OwnKind {
            group: PORTAL_GROUP,
            version: names::portal::VERSION,
            plural: "tunnelclasses",
            scope: ResourceScope::Cluster,
            definition: |_| tunnel_class_crd(),
            writers: Writers::Admin,
            is_optional: false,
            clients: &[],
        },
    ],
    rights: &[
        Right {
            verbs: &["list", "watch", "patch"],
            why: "watches PortalExposes and sets their finalizer",
            ..exposes(None)
        },
        Right {
            verbs: &["patch"],
            why: "writes the status of PortalExposes",
            ..exposes(Some("status"))
        },
        Right {
            verbs: &["update"],
            need: Need::Optional(
                "clusters with the admission plugin OwnerReferencesPermissionEnforcement reject the Deployments of tunnels",
            ),
            why: "sets a PortalExpose as the owner of its Deployment, in a way that blocks its deletion",
            ..exposes(Some("finalizers"))
        },
        Right {
            verbs: &["list", "watch"],
            why: "reads TunnelClasses",
            ..classes(None)
        },
        Right {
            verbs: &["patch"],
            need: Need::Optional("TunnelClasses have no status"),
            why: "writes the status of TunnelClasses",
            ..classes(Some("status"))
        },
        Right {
            verbs: &["get", "list", "watch", "create", "patch", "delete"],
            why: "creates, updates and deletes the Deployments of tunnels",
            ..fixed("apps", "deployments", RightScope::WatchedNamespaces)
        },
        Right {
            verbs: &["list", "watch"],
            why: "checks that the exposed Services exist",
            ..fixed("", "services", RightScope::WatchedNamespaces)
        },
        Right {
            verbs: &["get", "create", "patch"],
            why: "keeps the key of each public hostname in a Secret",
            ..fixed("", "secrets", RightScope::WatchedNamespaces)
        },
        Right {
            verbs: &["list", "watch"],
            need: Need::Optional(
                "a Secret that somebody changes or deletes is noticed only at the next look at its PortalExpose",
            ),
            why: "watches the metadata of these Secrets, never their values",
            ..fixed("", "secrets", RightScope::WatchedNamespaces)
        },
    ],
    aggregated: None,
    chain: Chain::Needed,
};

const fn exposes(subresource: Option<&'static str>) -> Right {
    let scope = RightScope::WatchedNamespaces;
    Right {
        subresource,
        ..fixed(names::portal::GROUP, "portalexposes", scope)
    }
}

const fn classes(subresource: Option<&'static str>) -> Right {
    Right {
        subresource,
        ..fixed(names::portal::GROUP, "tunnelclasses", RightScope::Cluster)
    }
}

const CERTIFICATES: Need = Need::Optional(
    "the operator cannot make certificates for its webhooks, so give it some with --tls-dir",
);

/// All replicas answer reviews. The leader renews the certificates.
pub(super) const WEBHOOK: Row = Row {
    name: "webhook",
    switch: Switch::Flag("--webhook"),
    names: Names::Webhook,
    kinds: &[OwnKind {
        group: Group::Fixed(names::rollout::GROUP),
        version: names::rollout::VERSION,
        plural: EXCEPTIONS,
        scope: ResourceScope::Namespaced,
        definition: |_| chain_exception_crd(),
        // They decide which plugins the pods of a namespace pass, as far as the author of the chain lets them.
        writers: Writers::Admin,
        is_optional: true,
        clients: &[],
    }],
    rights: &[
        Right {
            verbs: &["list", "watch"],
            need: Need::Optional("no ChainException holds"),
            why: "reads ChainExceptions",
            ..exceptions(None)
        },
        Right {
            verbs: &["patch"],
            need: Need::Optional("ChainExceptions do not say whether they hold"),
            why: "writes the status of ChainExceptions",
            ..exceptions(Some("status"))
        },
        Right {
            verbs: &["list", "watch"],
            need: Need::Optional("Browsers are admitted without a check of their version"),
            why: "reads which versions of browsers are configured",
            ..of_kind(SelenosisKind::BrowserConfig, None)
        },
        Right {
            verbs: &["list", "watch"],
            need: Need::Optional("PortalExposes are admitted without a check of their TunnelClass"),
            why: "reads which TunnelClasses there are",
            ..classes(None)
        },
        Right {
            verbs: &["get", "update"],
            object: Some(Object::WebhookSecret),
            need: CERTIFICATES,
            why: "reads and renews the certificates of its webhooks",
            ..fixed("", "secrets", RightScope::OwnNamespace)
        },
        Right {
            verbs: &["create"],
            need: CERTIFICATES,
            why: "creates the Secret with the certificates of its webhooks",
            ..fixed("", "secrets", RightScope::OwnNamespace)
        },
        publishes("mutatingwebhookconfigurations"),
        publishes("validatingwebhookconfigurations"),
        reads_owners("apps", "daemonsets"),
        reads_owners("apps", "replicasets"),
        reads_owners("apps", "statefulsets"),
        reads_owners("batch", "jobs"),
        reads_owners("", "replicationcontrollers"),
    ],
    aggregated: None,
    chain: Chain::Needed,
};

const EXCEPTIONS: &str = "chainexceptions";

const fn exceptions(subresource: Option<&'static str>) -> Right {
    Right {
        subresource,
        ..fixed(
            names::rollout::GROUP,
            EXCEPTIONS,
            RightScope::WatchedNamespaces,
        )
    }
}

const fn publishes(resource: &'static str) -> Right {
    Right {
        verbs: &["get", "patch"],
        object: Some(Object::WebhookConfiguration),
        need: CERTIFICATES,
        why: "writes its certificate authority into its webhook configurations",
        ..fixed(
            "admissionregistration.k8s.io",
            resource,
            RightScope::Cluster,
        )
    }
}

const fn reads_owners(group: &'static str, resource: &'static str) -> Right {
    Right {
        verbs: &["get"],
        need: Need::ForLabels(
            "no pod of such an object is created if a plugin may write labels: nobody knows which ones its selector needs",
        ),
        why: "reads the selectors of what creates pods, since no plugin may change the labels there",
        ..fixed(group, resource, RightScope::AllNamespaces)
    }
}

/// The rights of every duty with a namespaced kind: Events are in the namespace of their object.
pub(super) const EVENTS: [Right; 1] = [events(RightScope::WatchedNamespaces)];

/// The rights of every duty that watches a namespaced kind in the operator's own namespace alone.
pub(super) const OWN_EVENTS: [Right; 1] = [events(RightScope::OwnNamespace)];

/// The rights of every duty with a cluster-scoped kind: Events about such objects are in the namespace `default`.
pub(super) const CLUSTER_EVENTS: [Right; 1] = [events(RightScope::Namespace("default"))];

/// The rights of every duty that needs the chain.
pub(super) const CHAIN: [Right; 1] = [Right {
    verbs: &["list", "watch"],
    need: Need::Optional(
        "a chain that needs labels or annotations of namespaces is not loaded, unless --allow-unread-namespaces says that they have none",
    ),
    why: "shows the labels and annotations of namespaces to plugins",
    ..fixed("", "namespaces", RightScope::Cluster)
}];

/// The rights of every duty to its Lease.
pub(super) const LEASE: [Right; 2] = [
    Right {
        verbs: &["get", "update"],
        why: "renews the Lease of the leader",
        ..fixed("coordination.k8s.io", "leases", RightScope::LeaseNamespace)
    },
    Right {
        verbs: &["create"],
        why: "creates the Lease of the leader",
        ..fixed("coordination.k8s.io", "leases", RightScope::LeaseNamespace)
    },
];

const fn of_kind(kind: SelenosisKind, subresource: Option<&'static str>) -> Right {
    Right {
        group: Group::Selenosis(kind),
        resource: kind.plural(),
        subresource,
        verbs: &[],
        scope: RightScope::WatchedNamespaces,
        object: None,
        need: Need::Required,
        why: "",
    }
}

const fn events(scope: RightScope) -> Right {
    Right {
        // A repeated Event is a patch of the first one.
        verbs: &["create", "patch"],
        need: Need::Optional("there are no Events about its objects"),
        why: "publishes Events about its objects",
        ..fixed("events.k8s.io", "events", scope)
    }
}

const fn fixed(group: &'static str, resource: &'static str, scope: RightScope) -> Right {
    Right {
        group: Group::Fixed(group),
        resource,
        subresource: None,
        verbs: &[],
        scope,
        object: None,
        need: Need::Required,
        why: "",
    }
}

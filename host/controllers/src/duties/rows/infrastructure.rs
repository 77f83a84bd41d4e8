//! The row of the infrastructure controller.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use podloom_api::{InfrastructureKind, SelenosisApi, infrastructure_crd, names};

use super::super::{
    Chain, Group, Names, Need, OwnKind, ResourceScope, Right, RightScope, Row, Switch, Writers,
};
use super::fixed;

/// What does not work without a right to cluster-scoped kinds of the infrastructure controller.
const GLOBAL_KINDS: Need =
    Need::Optional("Clusters cannot use GlobalClouds and GlobalInfrastructureProviders");

pub(in crate::duties) const INFRASTRUCTURE: Row = Row {
    name: "infrastructure",
    switch: Switch::Controllers,
    names: Names::WithDuty,
    kinds: &[
        own(InfrastructureKind::Cluster),
        own(InfrastructureKind::Cloud),
        own(InfrastructureKind::GlobalCloud),
        own(InfrastructureKind::InfrastructureProvider),
        own(InfrastructureKind::GlobalInfrastructureProvider),
    ],
    rights: &[
        Right {
            verbs: &["list", "watch", "patch"],
            why: "watches Clusters and sets their finalizer",
            ..to(InfrastructureKind::Cluster, None)
        },
        Right {
            verbs: &["patch"],
            why: "writes the status of Clusters",
            ..to(InfrastructureKind::Cluster, Some("status"))
        },
        Right {
            verbs: &["get", "list", "watch", "patch"],
            why: "reads Clouds, and keeps those in use from being deleted",
            ..to(InfrastructureKind::Cloud, None)
        },
        Right {
            verbs: &["patch"],
            why: "writes the status of Clouds",
            ..to(InfrastructureKind::Cloud, Some("status"))
        },
        Right {
            verbs: &["get", "list", "watch", "patch"],
            why: "reads InfrastructureProviders, and keeps those in use from being deleted",
            ..to(InfrastructureKind::InfrastructureProvider, None)
        },
        Right {
            verbs: &["patch"],
            why: "writes the status of InfrastructureProviders",
            ..to(InfrastructureKind::InfrastructureProvider, Some("status"))
        },
        Right {
            verbs: &["get", "list", "watch", "patch"],
            need: GLOBAL_KINDS,
            why: "reads GlobalClouds, and keeps those in use from being deleted",
            ..to(InfrastructureKind::GlobalCloud, None)
        },
        Right {
            verbs: &["patch"],
            need: GLOBAL_KINDS,
            why: "writes the status of GlobalClouds",
            ..to(InfrastructureKind::GlobalCloud, Some("status"))
        },
        Right {
            verbs: &["get", "list", "watch", "patch"],
            need: GLOBAL_KINDS,
            why: "reads GlobalInfrastructureProviders, and keeps those in use from being deleted",
            ..to(InfrastructureKind::GlobalInfrastructureProvider, None)
        },
        Right {
            verbs: &["patch"],
            need: GLOBAL_KINDS,
            why: "writes the status of GlobalInfrastructureProviders",
            ..to(
                InfrastructureKind::GlobalInfrastructureProvider,
                Some("status"),
            )
        },
        Right {
            verbs: &["get", "create", "patch"],
            why: "reads the credentials that Clouds and InfrastructureProviders name, and writes the kubeconfigs of Clusters",
            ..fixed("", "secrets", RightScope::WatchedNamespaces)
        },
        Right {
            verbs: &["list", "watch"],
            need: Need::Optional(
                "a Secret that somebody changes or deletes is noticed only at the next look at its Cluster",
            ),
            why: "watches the metadata of these Secrets, never their values",
            ..fixed("", "secrets", RightScope::WatchedNamespaces)
        },
        Right {
            verbs: &["get", "patch"],
            need: GLOBAL_KINDS,
            why: "reads the credentials that GlobalClouds and GlobalInfrastructureProviders name",
            ..fixed("", "secrets", RightScope::GlobalSecrets)
        },
        Right {
            verbs: &["list", "watch"],
            need: Need::Optional(
                "a Secret of a cluster-scoped object that somebody changes is noticed only at the next look at its users",
            ),
            why: "watches the metadata of these Secrets, never their values",
            ..fixed("", "secrets", RightScope::GlobalSecrets)
        },
    ],
    aggregated: None,
    chain: Chain::Unused,
};

const fn own(kind: InfrastructureKind) -> OwnKind {
    OwnKind {
        group: Group::Fixed(names::infrastructure::GROUP),
        version: names::infrastructure::VERSION,
        plural: kind.plural(),
        scope: scope_of(kind),
        definition: definition_of(kind),
        // They name Secrets and where their values are sent to, and machines cost money.
        writers: Writers::Admin,
        is_optional: false,
        clients: &[],
    }
}

/// The function without captures that a row needs.
const fn definition_of(kind: InfrastructureKind) -> fn(SelenosisApi) -> CustomResourceDefinition {
    use InfrastructureKind as Kind;
    match kind {
        Kind::Cluster => |_| infrastructure_crd(Kind::Cluster),
        Kind::Cloud => |_| infrastructure_crd(Kind::Cloud),
        Kind::GlobalCloud => |_| infrastructure_crd(Kind::GlobalCloud),
        Kind::InfrastructureProvider => |_| infrastructure_crd(Kind::InfrastructureProvider),
        Kind::GlobalInfrastructureProvider => {
            |_| infrastructure_crd(Kind::GlobalInfrastructureProvider)
        }
    }
}

const fn scope_of(kind: InfrastructureKind) -> ResourceScope {
    match kind.is_global() {
        true => ResourceScope::Cluster,
        false => ResourceScope::Namespaced,
    }
}

const fn to(kind: InfrastructureKind, subresource: Option<&'static str>) -> Right {
    let scope = match scope_of(kind) {
        ResourceScope::Cluster => RightScope::Cluster,
        ResourceScope::Namespaced => RightScope::WatchedNamespaces,
    };
    Right {
        subresource,
        ..fixed(names::infrastructure::GROUP, kind.plural(), scope)
    }
}

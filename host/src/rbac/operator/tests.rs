use podloom_api::{SelenosisApi, SelenosisKind, crd};
use podloom_controllers::duties::{
    Chain, GivenNames, Group, Names, Need, OwnKind, ResourceScope, Right, RightScope, Row, Switch,
    Writers,
};

use super::{Installation, manifests};

/// A duty with a cluster-scoped kind.
const CLUSTERS: Row = Row {
    name: "clusters",
    switch: Switch::Controllers,
    names: Names::WithDuty,
    kinds: &[OwnKind {
        group: Group::Fixed("example.com"),
        version: "v1",
        plural: "clusters",
        scope: ResourceScope::Cluster,
        definition: |api| crd(api, SelenosisKind::Browser),
        writers: Writers::Admin,
        clients: &[],
    }],
    rights: &[
        Right {
            group: Group::Fixed("example.com"),
            resource: "clusters",
            subresource: None,
            verbs: &["list", "watch"],
            scope: RightScope::Cluster,
            object: None,
            need: Need::Required,
            why: "watches clusters",
        },
        Right {
            group: Group::Fixed(""),
            resource: "secrets",
            subresource: None,
            verbs: &["get"],
            scope: RightScope::WatchedNamespaces,
            object: None,
            need: Need::Required,
            why: "reads credentials",
        },
    ],
    aggregated: None,
    chain: Chain::Needed,
};

#[test]
fn a_cluster_scoped_kind_always_needs_a_cluster_role() {
    for (name, watched) in [
        ("everywhere", &[][..]),
        ("in_namespaces", &["a", "b"]),
        ("in_namespaces_with_default", &["a", "default"]),
    ] {
        let installation = Installation {
            api: SelenosisApi::Seed,
            watched,
            own: "home",
            secrets: "podloom-system",
            lease_namespace: "home",
            names: GivenNames::default(),
        };
        insta::assert_snapshot!(name, manifests(&CLUSTERS, &installation));
    }
}

#[test]
fn the_role_for_the_lease_is_in_the_namespace_of_the_lease() {
    let installation = Installation {
        api: SelenosisApi::Seed,
        watched: &[],
        own: "home",
        secrets: "podloom-system",
        lease_namespace: "leases",
        names: GivenNames {
            lease: Some("second"),
            ..GivenNames::default()
        },
    };
    let printed = manifests(&CLUSTERS, &installation);
    let (_, role) = printed.split_once("kind: Role\n").expect("a Role");
    let (role, binding) = role.split_once("---\n").expect("its binding");
    assert!(role.contains("\n  namespace: leases\n"), "{role}");
    assert!(
        role.contains("resourceNames: [second-clusters]\n"),
        "{role}"
    );
    assert!(
        binding.contains("metadata:\n  name: podloom-clusters-leader\n  namespace: leases\n"),
        "{binding}"
    );
    assert!(
        binding.ends_with("  name: podloom-clusters\n  namespace: home\n"),
        "{binding}"
    );
}

use clap::Parser;
use podloom_api::{SelenosisKind, crd};
use podloom_controllers::duties::{
    Chain, Group, Names, Need, OwnKind, ResourceScope, Right, RightScope, Row, Switch, Writers,
};

use super::manifests;
use crate::cli::{Arguments, Command};

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
        is_optional: false,
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

/// What is printed with these options.
fn printed(options: &[&str]) -> String {
    let line = [&["podloom", "rbac"], options].concat();
    let parsed = Arguments::try_parse_from(line).expect("options");
    let Command::Rbac(arguments) = parsed.command else {
        unreachable!("it is this command");
    };
    manifests(&CLUSTERS, &arguments)
}

#[test]
fn a_cluster_scoped_kind_always_needs_a_cluster_role() {
    let home = [
        "--operator-namespace=home",
        "--global-secret-namespace=podloom-system",
    ];
    for (name, watched) in [
        ("everywhere", &[][..]),
        ("in_namespaces", &["-na", "-nb"]),
        ("in_namespaces_with_default", &["-na", "-ndefault"]),
    ] {
        insta::assert_snapshot!(name, printed(&[&home, watched].concat()));
    }
}

#[test]
fn the_role_for_the_lease_is_in_the_namespace_of_the_lease() {
    let printed = printed(&[
        "--operator-namespace=home",
        "--lease-namespace=leases",
        "--lease-name=second",
    ]);
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

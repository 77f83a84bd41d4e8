use std::collections::BTreeSet;

use super::{base, deployment_name, labels, secret_name};

#[track_caller]
fn check(name: &str, expected: &str) {
    let base = base(name);
    assert_eq!(base, expected);
    assert!(base.len() <= 63);
    assert_eq!(deployment_name(name), format!("{expected}-tunnel"));
    assert_eq!(secret_name(name), format!("{expected}-tunnel-identity"));
    assert_eq!(labels(name)["portal.gosuda.org/portalexpose"], expected);
}

#[test]
fn short_names_stay() {
    check("my-app", "my-app");
    check("my.app", "my.app");
    check(&"a".repeat(63), &"a".repeat(63));
}

#[test]
fn long_names_are_cut_and_end_in_a_hash() {
    // printf 'a%.0s' $(seq 64) | sha256sum
    check(&"a".repeat(64), &format!("{}-ffe054fe", "a".repeat(54)));
    let name = format!("{}-.-{}", "a".repeat(51), "b".repeat(60));
    let base = base(&name);
    assert_eq!(base.len(), 51 + 9);
    assert!(base.starts_with(&format!("{}-", "a".repeat(51))), "{base}");
}

#[test]
fn long_names_that_begin_alike_stay_apart() {
    let names = ["x", "y", "z"].map(|end| format!("{}{end}", "a".repeat(80)));
    let bases: BTreeSet<String> = names.iter().map(|name| base(name)).collect();
    assert_eq!(bases.len(), names.len());
}

/// The public controller gives its Deployments the same ones, and a selector cannot be changed.
#[test]
fn labels_are_those_of_the_deployments_to_adopt() {
    let labels = labels("my-app");
    let labels: Vec<(&str, &str)> = labels.iter().map(|(k, v)| (&**k, &**v)).collect();
    assert_eq!(
        labels,
        [
            ("app.kubernetes.io/component", "tunnel"),
            ("app.kubernetes.io/managed-by", "portal-expose-controller"),
            ("app.kubernetes.io/name", "portal-tunnel"),
            ("portal.gosuda.org/portalexpose", "my-app"),
        ],
    );
}

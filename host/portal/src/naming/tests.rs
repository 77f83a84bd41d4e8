mod digest;

use std::collections::BTreeSet;

use serde_json::json;

use super::{base, deployment_name, labels, prune, secret_name};

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

/// Each of what belongs to a PortalExpose is in a cache.
#[test]
fn what_nothing_reads_is_not_kept() {
    let kept = json!({
        "name": "shop-tunnel", "namespace": "team", "uid": "u", "resourceVersion": "7", "generation": 3,
        "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-02T00:00:00Z",
        "deletionGracePeriodSeconds": 30,
        "labels": labels("shop"),
        "annotations": { "portal.gosuda.org/input-hash": "1", "podloom.dev/chain": "2" },
        "ownerReferences": [{ "apiVersion": "v1", "kind": "A", "name": "a", "uid": "b" }],
        "finalizers": ["example.com/keep"],
    });
    let mut given = kept.clone();
    given["managedFields"] = json!([{ "manager": "kubectl" }]);
    given["labels"]["example.com/a"] = json!("b");
    for annotation in ["example.com/a", "portal.gosuda.org/other"] {
        given["annotations"][annotation] = json!("b");
    }
    given["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = json!("{}");
    given["selfLink"] = json!("/");
    let mut metadata = serde_json::from_value(given).unwrap();
    prune(&mut metadata);
    assert_eq!(json!(metadata), kept);
}

use serde_json::{Value, json};

use super::Kept;
use crate::drift::{Need, Pod};

/// A pod of a ReplicaSet of a namespace.
fn pod(namespace: &str, owner: &str, is_ready: bool) -> Value {
    let status = if is_ready { "True" } else { "False" };
    json!({
        "metadata": {
            "namespace": namespace, "name": "p", "uid": "p",
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true }],
        },
        "status": { "conditions": [{ "type": "Ready", "status": status }] },
    })
}

#[test]
fn each_namespace_comes_once_before_any_comes_twice() {
    let mut kept = Kept::default();
    let missed = Some(Need::Missed);
    for (namespace, owner) in [("a", "1"), ("a", "2"), ("a", "2"), ("a", "3"), ("b", "4")] {
        kept.add(&Pod(&pod(namespace, owner, true)), missed, &[]);
    }
    // Somebody has begun with it.
    kept.add(&Pod(&pod("a", "3", false)), None, &[]);
    // Nothing of it needs anything.
    kept.add(&Pod(&pod("c", "5", false)), None, &[]);
    let mut bare = pod("a", "6", true);
    bare["metadata"]["ownerReferences"] = json!([]);
    kept.add(&Pod(&bare), missed, &[]);
    assert_eq!((kept.manual, kept.pods[&Need::Missed]), (1, 6));
    let order = kept.in_order();
    let order: Vec<_> = order.iter().map(|it| (it.name(), it.pods)).collect();
    let expected = ["a/3", "b/4", "a/1", "a/2"].map(|it| format!("ReplicaSet {it}"));
    let pods = [1, 1, 1, 2];
    assert_eq!(order, expected.into_iter().zip(pods).collect::<Vec<_>>());
}

/// Anybody may write owners that do not exist.
#[test]
fn invented_owners_hide_nobody() {
    let mut kept = Kept::default();
    for number in 0..1_500 {
        kept.add(&Pod(&pod("a", &number.to_string(), false)), None, &[]);
        kept.add(
            &Pod(&pod("a", &number.to_string(), true)),
            Some(Need::Missed),
            &[],
        );
    }
    kept.add(&Pod(&pod("b", "x", true)), Some(Need::Missed), &[]);
    assert_eq!((kept.started.len(), kept.workloads.len()), (1_000, 1_001));
    assert_eq!(kept.in_order()[1].namespace, "b");
}

use podloom_api::ClusterObject;
use podloom_engine::finding::Finding;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Request, request};
use crate::fixtures;

fn typed<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn of_cluster(changes: &Value) -> ClusterObject {
    typed(fixtures::cluster(changes))
}

/// A Cluster with this list and these keys in its template.
fn listing(policies: &Value, more: &Value) -> ClusterObject {
    let mut tosca = json!({ "topology_template": { "policies": policies } });
    json_patch::merge(&mut tosca, more);
    of_cluster(&json!({ "spec": { "tosca": tosca } }))
}

#[test]
fn the_first_request_has_the_canonical_template_and_a_name() {
    let tosca = json!({ "description": null, "metadata": { "a": null, "b": [null] } });
    let mut new = of_cluster(&json!({}));
    new.spec.tosca = Some(tosca);
    let sent = json!({ "metadata": { "b": [null], "infra_name": "podloom-<uid>" } });
    assert_eq!(request(&new, None), Request::First(sent));
    new.spec.tosca = None;
    assert_eq!(request(&new, None), Request::Registered);
}

#[test]
fn a_change_is_compared_with_the_previous_manifest() {
    let old = listing(&json!([1, 2]), &json!({ "description": "x" }));
    let named = |cluster: &ClusterObject| super::named(cluster.spec.tosca.as_ref().unwrap());
    assert_eq!(request(&old, Some(&old)), Request::Same);
    assert_eq!(
        request(&listing(&json!([1, 2]), &json!({})), Some(&old)),
        Request::Local
    );
    let longer = listing(&json!([1, 2, 3]), &json!({}));
    let update = Request::Update {
        template: named(&longer),
        retired: Vec::new(),
    };
    assert_eq!(request(&longer, Some(&old)), update);
    let Request::Unsupported(found) =
        request(&listing(&json!([1]), &json!({ "a": 1 })), Some(&old))
    else {
        panic!()
    };
    let texts: Vec<String> = found.iter().map(Finding::to_string).collect();
    assert_eq!(
        texts,
        [
            "spec.tosca.topology_template.policies: the list cannot become shorter; undo this, or create another Cluster"
        ]
    );
}

/// As `kubectl get -o yaml` prints it.
#[test]
fn the_status_of_the_previous_version_knows_what_was_sent() {
    let new = listing(&json!([1]), &json!({}));
    let mut old = listing(&json!([1, 2]), &json!({}));
    // Nobody has looked at it yet, or nothing was sent.
    old.status = typed(json!({}));
    assert!(matches!(request(&new, Some(&old)), Request::Unsupported(_)));
    old.status = typed(json!({ "state": "PENDING" }));
    assert!(matches!(request(&new, Some(&old)), Request::First(_)));
    old.status = typed(json!({ "state": "ONLINE", "lastAppliedTosca": new.spec.tosca }));
    assert_eq!(request(&new, Some(&old)), Request::Same);
    old.status = typed(json!({
        "state": "ONLINE", "lastAppliedTosca": new.spec.tosca, "retiredNodes": ["gone"],
    }));
    let nodes = json!({ "topology_template": { "node_templates": { "gone": {} } } });
    let again = listing(&json!([1]), &nodes);
    assert!(matches!(
        request(&again, Some(&old)),
        Request::Unsupported(_)
    ));
}

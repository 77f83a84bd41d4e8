use podloom_api::{
    CloudObject, ClusterObject, InfrastructureKind, InfrastructureProviderObject,
    infrastructure_crd,
};
use podloom_engine::finding::{Finding, Findings};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Request, Rule, cloud, cluster, provider, request};
use crate::validate::ClusterAround;
use crate::{fixtures, offline};

fn typed<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn of_cluster(changes: &Value) -> ClusterObject {
    typed(fixtures::cluster(changes))
}

/// The messages of all rules in a schema, and of those inside of it.
fn messages(schema: &Value, found: &mut Vec<String>) {
    let rules = schema["x-kubernetes-validations"].as_array();
    for rule in rules.into_iter().flatten() {
        found.push(rule["message"].as_str().unwrap().to_owned());
    }
    for value in schema
        .as_object()
        .into_iter()
        .flatten()
        .map(|(_, value)| value)
    {
        messages(value, found);
    }
}

#[track_caller]
fn same<K>(kind: InfrastructureKind, rules: &[Rule<K>]) {
    let definition = serde_json::to_value(infrastructure_crd(kind)).unwrap();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let mut defined = Vec::new();
    messages(schema, &mut defined);
    let mut ours: Vec<String> = rules.iter().map(|rule| rule.message.to_owned()).collect();
    defined.sort();
    ours.sort();
    assert_eq!(ours, defined, "{kind:?}");
}

#[test]
fn the_rules_are_those_of_the_definitions() {
    use InfrastructureKind as Kind;
    same(Kind::Cluster, &offline::CLUSTER);
    for kind in [Kind::Cloud, Kind::GlobalCloud] {
        same(kind, &offline::CLOUD);
    }
    for kind in [
        Kind::InfrastructureProvider,
        Kind::GlobalInfrastructureProvider,
    ] {
        same(kind, &offline::PROVIDER);
    }
}

/// Each rule is broken by one object at least: by an object alone, or by the change of one.
#[track_caller]
fn each_is_broken<K>(rules: &[Rule<K>], cases: &[(K, Option<K>)]) {
    let mut broken: Vec<String> = Vec::new();
    for (new, old) in cases {
        let found = offline::broken(rules, new, old.as_ref());
        assert!(
            !found.is_empty(),
            "case {} of {}",
            broken.len(),
            cases.len()
        );
        broken.extend(found.iter().map(ToString::to_string));
    }
    for rule in rules {
        let is_broken = broken.iter().any(|text| text.ends_with(rule.message));
        assert!(is_broken, "{}", rule.message);
    }
}

#[test]
fn clusters_break_each_rule() {
    let plain = || of_cluster(&json!({}));
    let with = |spec: Value| of_cluster(&json!({ "spec": spec }));
    let registered =
        json!({ "tosca": null, "cloudRef": null, "kubeconfigSecretRef": { "name": "s" } });
    let id = "00000000-0000-0000-0000-000000000000";
    let mut running = plain();
    running.status = typed(json!({ "runningOn": { "kind": "Cloud", "name": "dummy" } }));
    let moved = json!({ "cloudRef": { "kind": "Cloud", "name": "other" } });
    assert_eq!(
        offline::broken(&offline::CLUSTER, &plain(), Some(&running)),
        []
    );
    assert_eq!(
        offline::broken(&offline::CLUSTER, &with(moved.clone()), Some(&plain())),
        []
    );
    each_is_broken(
        &offline::CLUSTER,
        &[
            (
                of_cluster(&json!({ "metadata": { "name": "n".repeat(64) } })),
                None,
            ),
            (with(moved), Some(running)),
            (with(json!({ "tosca": null, "cloudRef": null })), None),
            (with(registered), Some(plain())),
            (
                with(json!({ "tosca": null, "kubeconfigSecretRef": { "name": "s" } })),
                None,
            ),
            (
                with(json!({ "tosca": null, "adoptInfrastructureId": id })),
                None,
            ),
            (with(json!({ "adoptInfrastructureId": id })), Some(plain())),
            (with(json!({ "kubeconfigSecretName": "s" })), Some(plain())),
        ],
    );
}

#[test]
fn clouds_break_each_rule() {
    let of = |spec: &Value| -> CloudObject {
        typed(json!({ "metadata": { "name": "a", "namespace": "team" }, "spec": spec }))
    };
    let provider = json!({ "kind": "InfrastructureProvider", "name": "im" });
    let generic = |changes: Value| {
        let mut generic = json!({ "type": "Dummy" });
        json_patch::merge(&mut generic, &changes);
        of(&json!({ "providerRef": provider, "generic": generic }))
    };
    let openstack = |changes: Value| {
        let account =
            json!({ "username": "u", "passwordSecretRef": { "name": "s" }, "projectName": "p" });
        let mut openstack = json!({ "url": "https://a.example", "auth": { "password": account } });
        json_patch::merge(&mut openstack, &changes);
        of(&json!({ "providerRef": provider, "openstack": openstack }))
    };
    let credential = json!({ "id": "x", "secretRef": { "name": "s" } });
    let secret = json!({ "name": "s" });
    for good in [generic(json!({})), openstack(json!({}))] {
        assert_eq!(offline::broken(&offline::CLOUD, &good, Some(&good)), []);
    }
    let plain = || Some(openstack(json!({})));
    let dummy = || Some(generic(json!({})));
    each_is_broken(
        &offline::CLOUD,
        &[
            (of(&json!({ "providerRef": provider })), None),
            (generic(json!({})), plain()),
            (openstack(json!({ "url": "https://b.example" })), plain()),
            (openstack(json!({ "auth": { "password": null } })), None),
            (
                openstack(
                    json!({ "auth": { "password": null, "applicationCredential": credential } }),
                ),
                plain(),
            ),
            (
                openstack(json!({ "auth": { "password": { "projectName": "q" } } })),
                plain(),
            ),
            (
                openstack(json!({ "auth": { "password": { "identityVersion": "2" } } })),
                plain(),
            ),
            (generic(json!({ "type": "Vault" })), None),
            (generic(json!({ "type": "Other" })), dummy()),
            (generic(json!({ "host": "h" })), dummy()),
            (
                generic(json!({ "parameters": { "a": "b" }, "secretParameters": { "a": secret } })),
                None,
            ),
            (generic(json!({ "parameters": { "1a": "b" } })), None),
            (generic(json!({ "parameters": { "id": "b" } })), None),
            (generic(json!({ "secretParameters": { "": secret } })), None),
            (
                generic(json!({ "secretParameters": { "host": secret } })),
                None,
            ),
        ],
    );
}

#[test]
fn providers_break_each_rule() {
    let of = |changes: Value| -> InfrastructureProviderObject {
        let mut object = fixtures::provider(Some("team"), "https://im.example.com");
        json_patch::merge(&mut object["spec"]["im"], &changes);
        typed(object)
    };
    let token = json!({ "name": "token" });
    assert_eq!(
        offline::broken(&offline::PROVIDER, &of(json!({})), Some(&of(json!({})))),
        []
    );
    each_is_broken(
        &offline::PROVIDER,
        &[
            (of(json!({ "tokenSecretRef": token })), None),
            (
                of(json!({ "basic": null, "tokenSecretRef": token })),
                Some(of(json!({}))),
            ),
            (
                of(json!({ "basic": { "username": "them" } })),
                Some(of(json!({}))),
            ),
        ],
    );
}

#[test]
fn rules_and_checks_are_reported_together() {
    let texts = |findings: Findings| -> Vec<String> {
        findings.refusals.iter().map(Finding::to_string).collect()
    };
    let both = of_cluster(&json!({ "spec": {
        "kubeconfigSecretRef": { "name": "s" }, "tosca": { "metadata": 7 },
    } }));
    assert_eq!(
        texts(cluster(&both, None, ClusterAround::default())),
        [
            "spec: give exactly one of tosca and kubeconfigSecretRef",
            "spec.tosca.metadata: it must be an object",
        ]
    );
    let global: CloudObject = typed(fixtures::cloud(None, "InfrastructureProvider"));
    assert_eq!(texts(cloud(&global, None)).len(), 1);
    let insecure = typed(fixtures::provider(None, "http://im.example.com"));
    let findings = provider(&insecure, None);
    assert_eq!((findings.refusals.len(), findings.warnings.len()), (0, 1));
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

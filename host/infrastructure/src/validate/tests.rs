use podloom_api::{CloudObject, ClusterObject, InfrastructureProviderObject};
use podloom_engine::finding::{Finding, Findings};
use serde_json::{Value, json};

use super::{TEMPLATE_BYTES_MAX, cloud, cluster, provider};
use crate::fixtures;

fn typed(value: &Value) -> ClusterObject {
    serde_json::from_value(value.clone()).unwrap()
}

fn texts(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn check(findings: &Findings, refusals: &[&str], warnings: &[&str]) {
    let starts = |found: &[Finding], expected: &[&str]| {
        let texts = texts(found);
        let fits = texts
            .iter()
            .zip(expected)
            .all(|(text, start)| text.starts_with(start));
        assert!(fits && texts.len() == expected.len(), "{texts:#?}");
    };
    starts(&findings.refusals, refusals);
    starts(&findings.warnings, warnings);
}

/// A Cluster whose template imports a file of the server.
fn importing() -> ClusterObject {
    typed(&fixtures::cluster(
        &json!({ "spec": { "tosca": { "imports": ["file:///etc/passwd"] } } }),
    ))
}

#[test]
fn files_of_the_server_are_refused_if_the_provider_forbids_them() {
    let new = importing();
    check(&cluster(&new, None, Some(true)), &[], &[]);
    check(
        &cluster(&new, None, Some(false)),
        &["spec.tosca.imports[0]: it names a file"],
        &[],
    );
    check(
        &cluster(&new, None, None),
        &[],
        &["spec.tosca.imports[0]: it names a file"],
    );
}

#[test]
fn what_is_stored_already_is_a_warning() {
    let (old, mut new) = (importing(), importing());
    check(&cluster(&new, Some(&old), Some(false)), &[], &[]);
    new.spec.paused = true;
    check(
        &cluster(&new, Some(&old), Some(false)),
        &[],
        &["spec.tosca.imports[0]: it names a file"],
    );
}

#[test]
fn a_template_that_is_too_large_is_refused() {
    let long = "x".repeat(TEMPLATE_BYTES_MAX);
    let large = fixtures::cluster(&json!({ "spec": { "tosca": { "description": long } } }));
    check(
        &cluster(&typed(&large), None, Some(true)),
        &["spec.tosca: it has 2"],
        &[],
    );
}

#[test]
fn a_change_that_would_be_ignored_is_refused() {
    let applied =
        json!({ "topology_template": { "outputs": { "kubeconfig": {} }, "policies": [1, 2] } });
    let stored = |tosca: Value| {
        typed(&fixtures::cluster(
            &json!({ "spec": { "tosca": tosca }, "status": { "lastAppliedTosca": applied } }),
        ))
    };
    let old = stored(applied.clone());
    let mut shorter = applied.clone();
    shorter["topology_template"]["policies"] = json!([1]);
    check(
        &cluster(&stored(shorter), Some(&old), Some(true)),
        &["spec.tosca.topology_template.policies: the list cannot become shorter; undo this, or"],
        &[],
    );
    let mut longer = applied.clone();
    longer["topology_template"]["policies"] = json!([1, 2, 3]);
    check(&cluster(&stored(longer), Some(&old), Some(true)), &[], &[]);
}

/// As if the webhook had been away when the list became shorter.
#[test]
fn a_stored_change_that_is_ignored_keeps_no_other_change_from_being_stored() {
    let stored = |tosca: Value| {
        let applied = json!({ "policies": [1, 2], "inputs": [1, 2] });
        typed(&fixtures::cluster(
            &json!({ "spec": { "tosca": tosca }, "status": { "lastAppliedTosca": applied } }),
        ))
    };
    let old = stored(json!({ "policies": [1], "inputs": [1, 2] }));
    check(
        &cluster(
            &stored(json!({ "policies": [1], "inputs": [1, 3] })),
            Some(&old),
            Some(true),
        ),
        &[],
        &["spec.tosca.policies: the list cannot"],
    );
    check(
        &cluster(
            &stored(json!({ "policies": [1], "inputs": [1] })),
            Some(&old),
            Some(true),
        ),
        &["spec.tosca.inputs: the list cannot"],
        &["spec.tosca.policies: the list cannot"],
    );
}

#[test]
fn a_global_cloud_needs_a_global_provider() {
    let of = |namespace, kind: &str| -> CloudObject {
        serde_json::from_value(fixtures::cloud(namespace, kind)).unwrap()
    };
    check(
        &cloud(&of(Some("team"), "InfrastructureProvider"), None),
        &[],
        &[],
    );
    check(
        &cloud(&of(None, "GlobalInfrastructureProvider"), None),
        &[],
        &[],
    );
    check(
        &cloud(&of(None, "InfrastructureProvider"), None),
        &["spec.providerRef.kind: a GlobalCloud"],
        &[],
    );
}

#[test]
fn what_of_a_provider_cannot_be_used_is_refused_and_what_is_unwise_is_said() {
    let of = |url: &str, changes: Value| -> InfrastructureProviderObject {
        let mut object = fixtures::provider(Some("team"), url);
        json_patch::merge(&mut object["spec"]["im"], &changes);
        serde_json::from_value(object).unwrap()
    };
    check(
        &provider(&of("https://im.example.com", json!({})), None),
        &[],
        &[],
    );
    check(
        &provider(
            &of(
                "https://im.example.com:99999",
                json!({ "caBundle": "none" }),
            ),
            None,
        ),
        &[
            "spec.im.url: the port",
            "spec.im.caBundle: it has no certificate",
        ],
        &[],
    );
    check(
        &provider(&of("http://im.example.com", json!({})), None),
        &[],
        &["spec.im.url: http://im.example.com is plain http"],
    );
}

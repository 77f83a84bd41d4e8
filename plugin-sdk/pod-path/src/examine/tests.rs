use serde_json::{Value, json};

use super::{ViolationKind, examine};

#[track_caller]
fn check(pod: &Value, expected: &[(&str, &str)]) {
    let findings = examine(pod);
    let found: Vec<(&str, &str)> = findings
        .iter()
        .map(|finding| match &finding.problem {
            ViolationKind::Type { expected, .. } => (finding.path.as_str(), expected.as_ref()),
            ViolationKind::Unknown { .. } => (finding.path.as_str(), "unknown"),
        })
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn a_sound_pod_has_no_findings() {
    check(
        &json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": "a", "labels": { "x/y": "z" }, "creationTimestamp": null },
            "spec": {
                "containers": [{
                    "name": "a",
                    "ports": [{ "containerPort": 80 }],
                    "resources": { "limits": { "cpu": 1, "memory": "1Gi" } },
                    "livenessProbe": { "httpGet": { "port": "web" } },
                    "env": null,
                }],
                "volumes": [{ "name": "tmp", "emptyDir": {} }],
            },
        }),
        &[],
    );
}

#[test]
fn every_misfit_is_found_where_it_is() {
    check(
        &json!({
            "metadata": { "labels": { "a/b": true } },
            "spec": {
                "containers": [{ "env": [{ "name": "A", "value": 1 }, null], "ports": [{ "containerPort": "80" }] }],
                "hostNetwork": "true",
                "tolerations": {},
                "futureField": { "x": 1 },
            },
        }),
        &[
            ("/metadata/labels/a~1b", "a string"),
            ("/spec/containers/0/env/0/value", "a string"),
            ("/spec/containers/0/env/1", "an object (EnvVar)"),
            (
                "/spec/containers/0/ports/0/containerPort",
                "a 32-bit integer",
            ),
            ("/spec/futureField", "unknown"),
            ("/spec/hostNetwork", "a boolean"),
            ("/spec/tolerations", "a list"),
        ],
    );
}

mod nearest;
mod unknown;

use serde_json::{Value, json};

use super::{ViolationKind, examine};

#[track_caller]
fn check(pod: &Value, expected: &[(&str, &str)]) {
    let violations = examine(pod);
    let found: Vec<(&str, &str)> = violations
        .iter()
        .map(|violation| match &violation.kind {
            ViolationKind::Type { expected, .. } => (violation.path.as_str(), expected.as_ref()),
            ViolationKind::Unknown { .. } => (violation.path.as_str(), "unknown"),
        })
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn a_valid_pod_has_no_violations() {
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
fn every_violation_is_returned_with_its_path() {
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

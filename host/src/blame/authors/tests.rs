//! The lines are those of the pod as YAML.

use serde_json::{Value, json};

use super::of;
use crate::output;

/// Checks that the lines are the YAML of the pod, and returns their paths.
#[track_caller]
fn check(pod: &Value) -> Vec<String> {
    let lines = of(pod).expect("lines");
    let text: String = lines
        .iter()
        .map(|line| format!("{}\n", line.text))
        .collect();
    assert_eq!(text, output::yaml(pod).expect("YAML"));
    lines.into_iter().map(|line| line.path).collect()
}

#[test]
fn lines_are_the_yaml_of_the_pod() {
    let paths = check(&json!({
        "kind": "Pod",
        "metadata": { "labels": { "app.kubernetes.io/name": "web" }, "name": "a" },
        "spec": {
            "containers": [
                { "args": ["--a", "b: c"], "env": [{ "name": "A/B", "value": "1" }, { "name": "TEXT", "value": "one\ntwo\n" }], "name": "web" },
                { "name": "other", "resources": {} },
            ],
            "tolerations": [{ "operator": "Exists" }],
        },
    }));
    assert_eq!(
        paths,
        [
            "/kind",
            "/metadata",
            "/metadata/labels",
            "/metadata/labels/app.kubernetes.io~1name",
            "/metadata/name",
            "/spec",
            "/spec/containers",
            "/spec/containers/[name=web]/args",
            "/spec/containers/[name=web]/args/0",
            "/spec/containers/[name=web]/args/1",
            "/spec/containers/[name=web]/env",
            "/spec/containers/[name=web]/env/[name=A~1B]/name",
            "/spec/containers/[name=web]/env/[name=A~1B]/value",
            "/spec/containers/[name=web]/env/[name=TEXT]/name",
            "/spec/containers/[name=web]/env/[name=TEXT]/value",
            "/spec/containers/[name=web]/env/[name=TEXT]/value",
            "/spec/containers/[name=web]/env/[name=TEXT]/value",
            "/spec/containers/[name=web]/name",
            "/spec/containers/[name=other]/name",
            "/spec/containers/[name=other]/resources",
            "/spec/tolerations",
            "/spec/tolerations/0/operator",
        ]
    );
}

#[test]
fn odd_values_are_lines_too() {
    for pod in [
        json!({ "a": [[1, [2, { "b": [] }]], [], {}, null, "", "\n", "null", "- a", "# a"] }),
        json!({ "": { "": null }, "null": { "a": 1 }, "a: b": { "#": [{}] }, "1": ["x"], "- x": { "y": 1 } }),
        json!({ "a": "  leading\n\n  lines\n", "b": { "c": ["\tx", "\n\tx", "x\n\n", " x\n y"] } }),
        json!({ "a": { "text": "\u{7f}\u{85}\u{2028}\"'" , "long": "x ".repeat(200) } }),
        json!({ "spec": { "containers": [{ "name": "a" }, { "name": "a" }, 7, [{ "b": { "c": 1 } }]] } }),
        json!({ "a": 1.5, "b": -0.0, "c": u64::MAX, "d": true, "e": "true", "f": "1e3", "g": "0x1" }),
    ] {
        check(&pod);
    }
    assert!(of(&json!([1])).expect("lines").is_empty());
}

#[test]
fn managed_fields_and_the_stamp_are_left_out() {
    let stamps = json!({ "podloom.dev/chain": "1", "podloom.dev/mutations": "[]" });
    let mut pod =
        json!({ "metadata": { "name": "a", "managedFields": [{}], "annotations": stamps } });
    let texts = |pod: &Value| -> Vec<String> {
        let lines = of(pod).expect("lines").into_iter();
        lines.map(|line| line.text).collect()
    };
    assert_eq!(texts(&pod), ["metadata:", "  name: a"]);
    pod["metadata"]["annotations"]["own"] = json!("x");
    assert_eq!(
        texts(&pod),
        ["metadata:", "  annotations:", "    own: x", "  name: a"]
    );
    assert_eq!(
        texts(&json!({ "metadata": { "annotations": {} } })),
        ["metadata:", "  annotations: {}"]
    );
}

//! What the plugin does to a pod, rule by rule.

mod needs;
mod rules;
mod templates;
mod validation;

use podloom_plugin_sdk::Rejection;
use podloom_plugin_sdk::serde_json::{Value, json};
use podloom_plugin_sdk::testing::{self, Submitted};

use crate::Labels;

/// A browser in a namespace that says who pays.
fn submitted() -> Submitted {
    let map = |entries: &[(&str, &str)]| {
        entries
            .iter()
            .map(|(key, value)| ((*key).into(), (*value).into()))
            .collect()
    };
    Submitted {
        kind: "Browser".into(),
        name: "chrome-1".into(),
        namespace: "shop".into(),
        labels: map(&[("channel", "stable")]),
        annotations: map(&[("example.com/ticket", "OPS 7")]),
        namespace_labels: map(&[("team", "web"), ("example.com/tier", "gold"), ("empty", "")]),
        namespace_annotations: map(&[("owner", "Web Team <web@example.com>")]),
        ..Submitted::default()
    }
}

fn pod(labels: Value, annotations: Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "chrome-1", "labels": labels, "annotations": annotations },
        "spec": {
            "serviceAccountName": "browsers",
            "priority": 7,
            "containers": [
                { "name": "browser", "image": "quay.io/browser/chrome:143.0", "futureField": { "kept": true } },
                { "name": "proxy", "image": "proxy" },
            ],
            "futureField": ["kept"],
        },
        "futureField": 1,
    })
}

/// Runs the plugin, and checks that the laws hold, that nothing but the two maps changed, and what became of them.
#[track_caller]
fn check(config: Value, pod: &Value, labels: Value, annotations: Value, notes: &[&str]) {
    check_for(&submitted(), config, pod, (labels, annotations), notes);
}

#[track_caller]
fn check_for(
    submitted: &Submitted,
    config: Value,
    pod: &Value,
    (labels, annotations): (Value, Value),
    notes: &[&str],
) {
    let run = testing::run::<Labels>(&config, submitted, pod);
    assert_eq!(run.result, Ok(()));
    assert_eq!(run.notes, notes);
    assert_eq!(run.pod["metadata"]["labels"], labels, "labels");
    assert_eq!(
        run.pod["metadata"]["annotations"], annotations,
        "annotations"
    );
    assert_eq!(
        without_maps(run.pod),
        without_maps(pod.clone()),
        "the rest of the pod"
    );
    testing::check_laws::<Labels>(&config, submitted, pod);
}

#[track_caller]
fn check_denied(config: Value, pod: &Value, reason: &str) {
    let run = testing::run::<Labels>(&config, &submitted(), pod);
    assert_eq!(run.result, Err(Rejection::Denied(reason.to_owned())));
    assert_eq!(&run.pod, pod);
    testing::check_laws::<Labels>(&config, &submitted(), pod);
}

fn without_maps(mut pod: Value) -> Value {
    if let Some(metadata) = pod["metadata"].as_object_mut() {
        metadata.remove("labels");
        metadata.remove("annotations");
    }
    pod
}

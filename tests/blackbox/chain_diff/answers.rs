//! What the real webhook answers for a pod.

use std::process::Command;

use k8s_openapi::ByteString;
use podloom_tests::Operator;
use podloom_tests::webhook::address;
use serde_json::{Value, json};

use super::file;

/// What the webhook answers for a pod.
#[derive(Debug)]
pub(super) struct Answer {
    /// The pod that is stored, without the stamp and without fields that are null; or the code and the message of the refusal.
    pub(super) pod: Result<Value, (u64, String)>,
    pub(super) warnings: Value,
}

/// The warnings of plugins. That of the webhook is about who made the pod, of which a file says nothing.
fn of_plugins(warnings: &Value) -> Value {
    let all = warnings.as_array().into_iter().flatten();
    let of_webhook = "no label of this pod is protected: ";
    let some = all.filter(|it| !it.as_str().unwrap().starts_with(of_webhook));
    match some.collect::<Vec<_>>() {
        none if none.is_empty() => Value::Null,
        some => json!(some),
    }
}

/// Sends a review of a new pod as the API server does.
pub(super) async fn ask(operator: &Operator, pod: &Value) -> Answer {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u", "kind": { "group": "", "version": "v1", "kind": "Pod" }, "operation": "CREATE",
            "namespace": pod["metadata"]["namespace"], "name": pod["metadata"]["name"],
            "userInfo": { "username": "test" }, "object": pod,
        },
    });
    let review = file(&review);
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--insecure", "--data-binary"])
        .arg(format!("@{}", review.path().display()))
        .args(["--header", "content-type: application/json"])
        .arg(format!("https://{}/mutate/pods", address(operator).await))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let response = &answer["response"];
    let warnings = of_plugins(&response["warnings"]);
    if response["allowed"] != true {
        let status = &response["status"];
        let message = status["message"].as_str().unwrap().to_owned();
        return Answer {
            pod: Err((status["code"].as_u64().unwrap(), message)),
            warnings,
        };
    }
    let mut pod = pod.clone();
    if response["patch"].is_string() {
        let patch: ByteString = serde_json::from_value(response["patch"].clone()).unwrap();
        let patch: json_patch::Patch = serde_json::from_slice(&patch.0).unwrap();
        json_patch::patch(&mut pod, &patch).unwrap();
    }
    Answer {
        pod: Ok(content(pod)),
        warnings,
    }
}

/// The pod without what two chains always write differently.
fn content(mut pod: Value) -> Value {
    without_nulls(&mut pod);
    let metadata = pod["metadata"].as_object_mut().unwrap();
    metadata.remove("managedFields");
    if let Some(annotations) = metadata.get_mut("annotations") {
        let annotations = annotations.as_object_mut().unwrap();
        annotations.retain(|key, _| !key.starts_with("podloom.dev/"));
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    pod
}

fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(elements) => elements.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

use std::sync::Arc;

use podloom_api::names::annotation;
use serde_json::json;

use super::SeenPod;

/// The conditions that are left of these, as `type=status`.
fn kept(conditions: &serde_json::Value) -> Vec<String> {
    let pod = json!({ "metadata": { "name": "a" }, "status": { "conditions": conditions } });
    let pod: SeenPod = serde_json::from_value(pod).unwrap();
    let line = |condition: &k8s_openapi::api::core::v1::PodCondition| {
        format!("{}={}", condition.type_, condition.status)
    };
    pod.status.conditions.iter().map(line).collect()
}

#[test]
fn conditions_that_say_what_is_wrong_are_kept() {
    let bad = json!([
        { "type": "PodScheduled", "status": "False" },
        { "type": "Ready", "status": "False" },
        { "type": "DisruptionTarget", "status": "True" },
        { "type": "ContainersReady", "status": "False" },
    ]);
    assert_eq!(
        kept(&bad),
        ["PodScheduled=False", "Ready=False", "DisruptionTarget=True"]
    );
    let good = json!([
        { "type": "PodScheduled", "status": "True" },
        { "type": "Ready", "status": "True" },
        { "type": "DisruptionTarget", "status": "False" },
    ]);
    assert_eq!(kept(&good), ["DisruptionTarget=False"]);
}

#[test]
fn managed_fields_of_pods_are_not_even_read() {
    let pod = json!({ "metadata": { "name": "a", "managedFields": "no list" } });
    let pod: SeenPod = serde_json::from_value(pod).unwrap();
    assert_eq!(pod.metadata.name.as_deref(), Some("a"));
}

#[test]
fn pods_of_a_version_share_what_they_have_alike() {
    let read = |name: &str| -> SeenPod {
        let annotations = json!({ annotation::CHAIN: "sha256:1", annotation::MUTATIONS: "[]" });
        serde_json::from_value(json!({
            "metadata": { "name": name, "annotations": annotations },
            "spec": { "containers": [{ "name": "browser" }] },
        }))
        .unwrap()
    };
    let [one, other] = ["a", "b"].map(read);
    assert!(Arc::ptr_eq(&one.spec, &other.spec));
    let [one, other] = [one, other].map(|pod| pod.mutations.unwrap());
    assert!(Arc::ptr_eq(&one, &other));
}

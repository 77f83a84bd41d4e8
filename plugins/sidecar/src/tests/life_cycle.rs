//! What is never touched, and what survives.

use podloom_plugin_sdk::serde_json::{Value, json};

use super::{check_note, container, inject, pod, proxy, record, run, with};

#[test]
fn everything_else_of_the_pod_is_untouched() {
    let before = with(
        pod(),
        "",
        json!({"spec": {
            "terminationGracePeriodSeconds": 5,
            "shareProcessNamespace": true,
            "schedulingGates": [{"name": "example.com/gate"}],
            "runtimeClassName": "gvisor",
            "overhead": {"cpu": "250m"},
            "futureField": {"nested": [1, 2]},
            "containers": [{
                "name": "app",
                "livenessProbe": {"httpGet": {"path": "/", "port": 80}},
                "lifecycle": {"preStop": {"sleep": {"seconds": 3}}},
                "futureField": true,
            }],
        }}),
    );
    let mut after = inject(&proxy(), &before);
    after["spec"]
        .as_object_mut()
        .unwrap()
        .remove("initContainers");
    after["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("annotations");
    assert_eq!(after, before);
}

#[test]
fn unknown_fields_of_an_injected_container_survive() {
    let fields = json!({"futureField": {"a": [1, {"b": null}], "c": 1.5}, "restartPolicyRules": [{"action": "Restart"}]});
    let config =
        json!({"containers": [{"container": with(container("proxy"), "", fields.clone())}]});
    let injected = &inject(&config, &pod())["spec"]["initContainers"][0];
    assert_eq!(injected["futureField"], fields["futureField"]);
    assert_eq!(injected["restartPolicyRules"], fields["restartPolicyRules"]);
}

#[test]
fn record_names_what_was_injected_with_version_and_hash() {
    let config = with(
        proxy(),
        "",
        json!({"volumes": [{"name": "v", "emptyDir": {}}]}),
    );
    let after = inject(&config, &pod());
    assert_eq!(
        record(&after),
        [
            "/spec/volumes/[name=v]",
            "/spec/initContainers/[name=proxy]"
        ]
    );
    let text = after
        .pointer(super::RECORD)
        .and_then(Value::as_str)
        .unwrap();
    let record: Value = podloom_plugin_sdk::serde_json::from_str(text).unwrap();
    assert_eq!(record["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(record["hash"].as_str().map(str::len), Some(16));
}

#[test]
fn missing_requests_and_limits_are_noted() {
    for (resources, missing) in [
        (json!({}), Some("requests and limits")),
        (json!({"requests": {"cpu": "1"}}), Some("limits")),
        (json!({"limits": {"cpu": "1"}}), Some("requests")),
        (
            json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}),
            None,
        ),
    ] {
        let config = json!({"containers": [{"container": with(container("proxy"), "", json!({"resources": resources}))}]});
        let run = run(&config, &pod());
        match missing {
            Some(missing) => check_note(
                &run,
                &format!("container proxy is injected without resource {missing}"),
            ),
            None => assert!(run.notes.is_empty(), "{:?}", run.notes),
        }
    }
}

#[test]
fn empty_configuration_does_nothing() {
    assert!(run(&json!({}), &pod()).writes.is_empty());
}

#[test]
fn foreign_change_between_two_runs_is_respected() {
    let mut between = inject(&proxy(), &pod());
    let containers = between["spec"]["initContainers"].as_array_mut().unwrap();
    containers.push(json!({"name": "foreign", "image": "x"}));
    containers[0]["imagePullPolicy"] = json!("Always");
    between["metadata"]["labels"] = json!({"foreign": "true"});
    assert!(run(&proxy(), &between).writes.is_empty());
}

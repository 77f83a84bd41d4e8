//! Native tests: paths, types, grants and the configuration's schema are checked by the code that the operator has.

use podloom_plugin_sdk::serde_json::{Value, json};
use podloom_plugin_sdk::testing::{self, Run, Submitted};

use super::{Rejection, ResourceFloor};

fn config() -> Value {
    json!({ "floor": { "cpu": 0.1, "memory": "64Mi" } })
}

#[track_caller]
fn run(config: &Value, spec: &Value) -> Run {
    let pod = json!({ "spec": spec });
    let run = testing::run::<ResourceFloor>(config, &Submitted::default(), &pod);
    testing::check_laws::<ResourceFloor>(config, &Submitted::default(), &pod);
    run
}

/// Compares the requests of a container with these resources afterwards.
#[track_caller]
fn check(resources: &Value, requests: &Value) {
    let run = run(
        &config(),
        &json!({ "containers": [{ "name": "app", "resources": resources }] }),
    );
    assert_eq!(run.result, Ok(()));
    assert_eq!(
        run.pod["spec"]["containers"][0]["resources"]["requests"],
        *requests
    );
}

#[test]
fn requests_are_raised_to_the_floor() {
    check(&Value::Null, &json!({ "cpu": "100m", "memory": "64Mi" }));
    check(
        &json!({ "requests": { "cpu": "50m", "memory": "1e8" } }),
        &json!({ "cpu": "100m", "memory": "1e8" }),
    );
    check(
        &json!({ "requests": { "memory": 1024 }, "limits": { "cpu": 2, "memory": "0.1Gi" } }),
        &json!({ "memory": "64Mi" }),
    );
}

#[test]
fn a_request_of_the_floor_stays_as_it_is_written() {
    let requests = json!({ "cpu": 0.1, "memory": "65536Ki" });
    check(&json!({ "requests": requests }), &requests);
}

#[test]
fn limits_below_the_floor_are_denied_with_all_reasons() {
    let low = json!({ "limits": { "cpu": "10m", "memory": "8M" } });
    let run = run(
        &config(),
        &json!({ "containers": [{ "name": "app", "resources": low }] }),
    );
    let reasons = "container app: the cpu limit 10m is less than 100m, which each container requests here: raise it; \
        container app: the memory limit 8M is less than 64Mi, which each container requests here: raise it";
    assert_eq!(run.result, Err(Rejection::Denied(reasons.to_owned())));
}

#[test]
fn init_containers_get_it_only_if_asked_for_but_sidecars_always() {
    let spec = json!({ "initContainers": [
        { "name": "init" },
        { "name": "sidecar", "restartPolicy": "Always" },
    ] });
    let mut config = config();
    let requests = |run: &Run, index: usize| {
        run.pod["spec"]["initContainers"][index]["resources"]["requests"]["cpu"].clone()
    };
    let without = run(&config, &spec);
    assert_eq!(
        [requests(&without, 0), requests(&without, 1)],
        [Value::Null, json!("100m")]
    );
    config["initContainers"] = json!(true);
    let with = run(&config, &spec);
    assert_eq!(
        [requests(&with, 0), requests(&with, 1)],
        [json!("100m"), json!("100m")]
    );
}

#[test]
fn a_wrong_configuration_is_explained() {
    let errors = |floor: Value| {
        let config = json!({ "floor": floor });
        testing::configure::<ResourceFloor>(&config).expect_err("it is wrong")
    };
    assert_eq!(
        errors(json!({ "cpu": 0, "memory": "-1Mi" })),
        [
            "floor: cpu is 0: write more than 0, or leave it out",
            "floor: memory is -1Mi: write more than 0, or leave it out",
        ]
    );
    let [error] = &errors(json!({ "memory": "64MB" }))[..] else {
        panic!("one error")
    };
    assert!(
        error.starts_with("floor/memory: 64MB is no quantity: write a number"),
        "{error}"
    );
}

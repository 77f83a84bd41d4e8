//! Native tests: paths, types, grants and the configuration's schema are checked by the code that the operator has.

use podloom_plugin_sdk::serde_json::{Value, json};
use podloom_plugin_sdk::testing::{self, Submitted};

use super::Plugin;

/// Runs the plugin on a pod with one container of this environment, and compares the environment and the notes afterwards.
#[track_caller]
fn check(config: &Value, env: &Value, expected: &Value, notes: &[&str]) {
    let pod = json!({ "spec": { "containers": [{ "name": "app", "env": env }] } });
    let run = testing::run::<Plugin>(config, &Submitted::default(), &pod);
    assert_eq!(run.result, Ok(()));
    assert_eq!(run.pod["spec"]["containers"][0]["env"], *expected);
    assert_eq!(run.notes, notes);
    // Deterministic and idempotent: the operator loads no plugin that is not.
    testing::check_laws::<Plugin>(config, &Submitted::default(), &pod);
}

fn utc() -> Value {
    json!({ "variables": [{ "name": "TZ", "value": "UTC" }] })
}

#[test]
fn a_variable_is_set_where_it_is_absent() {
    let expected = json!([{ "name": "A", "value": "1" }, { "name": "TZ", "value": "UTC" }]);
    check(
        &utc(),
        &json!([{ "name": "A", "value": "1" }]),
        &expected,
        &[],
    );
    check(
        &utc(),
        &json!([]),
        &json!([{ "name": "TZ", "value": "UTC" }]),
        &[],
    );
}

#[test]
fn what_a_container_sets_itself_stays() {
    let note = ["container app sets TZ itself"];
    for own in [
        json!([{ "name": "TZ", "value": "Europe/Berlin" }]),
        json!([{ "name": "TZ", "valueFrom": { "fieldRef": { "fieldPath": "metadata.labels['tz']" } } }]),
    ] {
        check(&utc(), &own, &own, &note);
    }
}

#[test]
fn containers_can_be_left_alone() {
    let mut config = utc();
    config["skipContainers"] = json!(["app"]);
    check(&config, &json!([]), &json!([]), &[]);
}

#[test]
fn a_wrong_configuration_is_told() {
    let config = json!({ "variables": [
        { "name": "A=B", "value": "" },
        { "name": "C", "value": "" },
        { "name": "C", "value": "" },
    ] });
    let errors = testing::configure::<Plugin>(&config).expect_err("it is wrong");
    assert_eq!(
        errors,
        [
            "variables[0]: the name `A=B` is empty, or has a `=` or a character that is not printable ASCII",
            "variables[2]: C is listed twice",
        ]
    );
}

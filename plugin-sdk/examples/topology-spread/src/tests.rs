//! Native tests: paths, types, grants and the configuration's schema are checked by the code that the operator has.

use podloom_plugin_sdk::serde_json::{Value, json};
use podloom_plugin_sdk::testing::{self, Submitted};

use super::TopologySpread;

const ZONE: &str = "topology.kubernetes.io/zone";
const NODE: &str = "kubernetes.io/hostname";

fn constraint(key: &str) -> Value {
    json!({
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": { "matchLabels": { "app.kubernetes.io/name": "shop" } },
    })
}

/// Spreads a pod over zones and nodes, and compares its constraints afterwards.
#[track_caller]
fn check(labels: &Value, constraints: &Value, expected: &Value, notes: &[&str]) {
    let config = json!({ "topologyKeys": [ZONE, NODE] });
    let pod = json!({ "metadata": { "labels": labels }, "spec": { "topologySpreadConstraints": constraints } });
    let run = testing::run::<TopologySpread>(&config, &Submitted::default(), &pod);
    assert_eq!(run.result, Ok(()));
    assert_eq!(run.pod["spec"]["topologySpreadConstraints"], *expected);
    assert_eq!(run.notes, notes);
    testing::check_laws::<TopologySpread>(&config, &Submitted::default(), &pod);
}

#[test]
fn a_workload_is_spread_over_all_domains() {
    let labels = json!({ "app.kubernetes.io/name": "shop" });
    check(
        &labels,
        &Value::Null,
        &json!([constraint(ZONE), constraint(NODE)]),
        &[],
    );
}

#[test]
fn the_pods_own_constraints_stay() {
    let labels = json!({ "app.kubernetes.io/name": "shop" });
    // Two with the same key, which no selector could tell apart.
    let own =
        |policy: &str| json!({ "maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": policy });
    let (hard, soft) = (own("DoNotSchedule"), own("ScheduleAnyway"));
    check(
        &labels,
        &json!([hard, soft]),
        &json!([hard, soft, constraint(NODE)]),
        &[],
    );
}

#[test]
fn a_pod_that_belongs_to_no_workload_is_left_alone() {
    let note = "not spread: the pod has no label app.kubernetes.io/name";
    check(
        &json!({ "app": "shop" }),
        &Value::Null,
        &Value::Null,
        &[note],
    );
}

#[test]
fn a_wrong_configuration_is_explained() {
    let config = json!({ "topologyKeys": [ZONE, "zone/", ZONE], "workloadLabel": "-" });
    let errors = testing::configure::<TopologySpread>(&config).expect_err("it is wrong");
    let name = "has a name that is not 1 to 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends";
    assert_eq!(
        errors,
        [
            format!("workloadLabel: - {name}"),
            format!("topologyKeys[1]: zone/ {name}"),
            format!("topologyKeys[2]: {ZONE} is listed twice"),
        ]
    );
}

#[test]
fn the_limits_of_the_schema_hold() {
    let config = json!({ "topologyKeys": [ZONE], "maxSkew": 0 });
    let errors = testing::configure::<TopologySpread>(&config).expect_err("it is wrong");
    assert_eq!(
        errors,
        ["config/maxSkew: value is less than the minimum of 1, found 0"]
    );
}

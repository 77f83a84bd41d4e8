use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

use super::{Fact, Truth, conditions, difference, keep_dropped, time};
use crate::engine::fixtures::{LampPhase, LampStatus, lamp};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn ready(status: Truth, reason: &str) -> Fact {
    Fact {
        type_: "Ready",
        status,
        reason: reason.to_owned(),
        message: String::new(),
    }
}

#[test]
fn a_condition_keeps_its_time_while_its_status_lasts() {
    let first = conditions(
        None,
        vec![ready(Truth::Unknown, "Pending")],
        Some(1),
        at(10),
    );
    assert_eq!(first[0].last_transition_time, time(at(10)));
    let second = conditions(
        Some(&first),
        vec![ready(Truth::Unknown, "Slow")],
        Some(1),
        at(20),
    );
    assert_eq!(second[0].last_transition_time, time(at(10)));
    assert_eq!(second[0].reason, "Slow");
    let third = conditions(
        Some(&second),
        vec![ready(Truth::True, "Runs")],
        Some(1),
        at(30),
    );
    assert_eq!(third[0].last_transition_time, time(at(30)));
}

#[test]
fn conditions_of_others_stay() {
    let foreign = Condition {
        type_: "Billed".to_owned(),
        status: "True".to_owned(),
        reason: "Paid".to_owned(),
        message: String::new(),
        last_transition_time: time(at(1)),
        observed_generation: None,
    };
    let seen = vec![foreign.clone()];
    let both = conditions(
        Some(&seen),
        vec![ready(Truth::True, "Runs")],
        Some(1),
        at(2),
    );
    assert_eq!(both.len(), 2);
    assert_eq!(both[1], foreign);
}

#[track_caller]
fn check(seen: &Value, wanted: &Value, expected: &Value) {
    let patch = difference(Some(seen), wanted).unwrap();
    assert_eq!(&Value::Object(patch), expected);
}

#[test]
fn a_patch_holds_what_differs() {
    let running = json!({ "phase": "Running", "podIP": "10.0.0.1" });
    check(&running, &running, &json!({}));
    check(
        &running,
        &json!({ "phase": "Failed", "podIP": "10.0.0.1" }),
        &json!({ "phase": "Failed" }),
    );
    check(
        &running,
        &json!({ "phase": "Running" }),
        &json!({ "podIP": null }),
    );
    check(
        &json!({ "relay": { "summary": "1/2", "since": "now", "all": [1, 2] }, "phase": "Ready" }),
        &json!({ "relay": { "summary": "2/2", "all": [1] }, "phase": "Ready" }),
        &json!({ "relay": { "summary": "2/2", "since": null, "all": [1] } }),
    );
    check(
        &json!({ "relay": "none" }),
        &json!({ "relay": { "summary": "2/2" } }),
        &json!({ "relay": { "summary": "2/2" } }),
    );
    check(
        &json!({ "relay": { "summary": "2/2" } }),
        &json!({ "relay": {} }),
        &json!({ "relay": { "summary": null } }),
    );
    let patch = difference(None, &running).unwrap();
    assert_eq!(Value::Object(patch), running);
}

#[test]
fn what_the_api_server_drops_is_not_written_again() {
    let wanted = LampStatus {
        phase: LampPhase::Lit,
    };
    let mut answered = None;
    keep_dropped(&mut answered, &wanted, &lamp("team", "a", 1).metadata);
    assert_eq!(answered, Some(wanted));
}

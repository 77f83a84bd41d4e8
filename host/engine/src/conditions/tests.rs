use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

use super::{ConditionStatus, NewCondition, conditions, difference, keep_dropped, time};
use crate::tests::lamp;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn ready(status: ConditionStatus, reason: &str) -> NewCondition {
    NewCondition {
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
        vec![ready(ConditionStatus::Unknown, "Pending")],
        Some(1),
        at(10),
    );
    assert_eq!(first[0].last_transition_time, time(at(10)));
    let second = conditions(
        Some(&first),
        vec![ready(ConditionStatus::Unknown, "Slow")],
        Some(1),
        at(20),
    );
    assert_eq!(second[0].last_transition_time, time(at(10)));
    assert_eq!(second[0].reason, "Slow");
    let third = conditions(
        Some(&second),
        vec![ready(ConditionStatus::True, "Runs")],
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
        vec![ready(ConditionStatus::True, "Runs")],
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

/// What is kept of an answer to a status that was written, and what was there before.
#[track_caller]
fn check_kept(answered: &Value, wanted: &Value, expected: &Value) {
    let before = json!({ "phase": "Dark", "since": "yesterday" });
    let mut kept = Some(answered.clone());
    let metadata = lamp("team", "a", 1).metadata;
    keep_dropped(&mut kept, Some(&before), wanted, &metadata);
    assert_eq!(kept.as_ref(), Some(expected));
}

#[test]
fn what_the_api_server_drops_is_not_written_again() {
    let wanted = json!({ "phase": "Lit", "colors": ["red"] });
    check_kept(&wanted, &wanted, &wanted);
    check_kept(&json!({ "phase": "Lit" }), &wanted, &wanted);
    let mut nothing = None;
    keep_dropped(&mut nothing, None, &wanted, &lamp("team", "a", 1).metadata);
    assert_eq!(nothing, Some(wanted));
}

/// Otherwise it would be undone by the next write of the same pass.
#[test]
fn what_others_wrote_meanwhile_stays() {
    let wanted = json!({ "phase": "Lit" });
    let answered = json!({ "phase": "Lit", "conditions": ["of another"] });
    check_kept(&answered, &wanted, &answered);
    let both = json!({ "phase": "Lit", "colors": ["red"], "conditions": ["of another"] });
    let wanted = json!({ "phase": "Lit", "colors": ["red"] });
    check_kept(&answered, &wanted, &both);
}

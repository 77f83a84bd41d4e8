use std::time::Duration;

use serde_json::{Value, json};

use super::{Exit, go_duration, of_running};
use crate::browser::pod::SeenPod;

#[track_caller]
fn check_duration(millis: u64, expected: &str) {
    assert_eq!(go_duration(Duration::from_millis(millis)), expected);
}

#[test]
fn durations_are_printed_as_go_does() {
    check_duration(300_000, "5m0s");
    check_duration(3_000, "3s");
    check_duration(90_000, "1m30s");
    check_duration(3_661_000, "1h1m1s");
    check_duration(500, "500ms");
}

#[track_caller]
fn check_exit(statuses: &Value, expected: Option<&str>) {
    let pod: SeenPod = serde_json::from_value(json!({
        "metadata": {},
        "status": { "phase": "Running", "containerStatuses": statuses },
    }))
    .unwrap();
    let told = of_running(&pod).map(|exit| match exit {
        Exit::Well(cause) => format!("well: {}", cause.message),
        Exit::Badly(cause) => format!("badly: {}", cause.message),
    });
    assert_eq!(told.as_deref(), expected);
}

fn ended(name: &str, code: i32) -> Value {
    json!({
        "name": name, "image": "i", "imageID": "i", "ready": false, "restartCount": 0,
        "state": { "terminated": { "exitCode": code } },
    })
}

#[test]
fn a_bad_end_tells_more_than_a_good_one() {
    check_exit(&json!([]), None);
    check_exit(&json!([ended("recorder", 1)]), None);
    check_exit(
        &json!([ended("browser", 0), ended("seleniferous", 3)]),
        Some("badly: container seleniferous terminated: Error (exit code 3)"),
    );
    check_exit(
        &json!([ended("seleniferous", 0), ended("browser", 0)]),
        Some("well: container browser terminated: Completed (exit code 0)"),
    );
}

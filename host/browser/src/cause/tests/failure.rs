use serde_json::{Value, json};

use super::super::of_running;
use crate::pod::SeenPod;

#[track_caller]
fn check_exit(statuses: &Value, expected: Option<&str>) {
    let pod: SeenPod = serde_json::from_value(json!({
        "metadata": {},
        "status": { "phase": "Running", "containerStatuses": statuses },
    }))
    .unwrap();
    let ended = of_running(&pod).map(|cause| format!("{}: {cause}", cause.phase().as_str()));
    assert_eq!(ended.as_deref(), expected);
}

fn ended(name: &str, code: i32) -> Value {
    json!({
        "name": name, "image": "i", "imageID": "i", "ready": false, "restartCount": 0,
        "state": { "terminated": { "exitCode": code } },
    })
}

#[test]
fn a_failed_container_explains_more_than_one_that_completed() {
    check_exit(&json!([]), None);
    check_exit(&json!([ended("recorder", 1)]), None);
    check_exit(
        &json!([ended("browser", 0), ended("seleniferous", 3)]),
        Some("Failed: container seleniferous terminated: Error (exit code 3)"),
    );
    check_exit(
        &json!([ended("seleniferous", 0), ended("browser", 0)]),
        Some("Succeeded: container browser terminated: Completed (exit code 0)"),
    );
}

use podloom_api::ClusterStatus;
use serde_json::json;

use super::Durable;

#[test]
fn a_status_is_read_and_written_without_loss() {
    let status = json!({
        "scheduledTo": { "kind": "Cloud", "name": "a" },
        "runningOn": { "kind": "GlobalCloud", "name": "b" },
        "clusterId": "22222222-2222-4222-8222-222222222222",
        "providerUrl": "https://im.example.com",
        "lastAppliedTosca": { "a": 1 },
        "retiredNodes": ["old"],
        "operation": {
            "kind": "Update",
            "startedAt": "2026-01-01T00:00:00.000001Z",
            "lastCallAt": "2026-01-01T00:00:00.000002Z",
            "attempts": 3,
        },
        "imState": "running",
        "vms": { "total": 2, "configured": 1 },
    });
    let status: ClusterStatus = serde_json::from_value(status).unwrap();
    assert_eq!(Durable::of(Some(&status)).status(), status);
}

/// What is no id was written by somebody else, and must never stand in a path.
#[test]
fn an_id_that_is_none_is_lost() {
    let status = ClusterStatus {
        cluster_id: Some("../admin".to_owned()),
        ..ClusterStatus::default()
    };
    assert_eq!(Durable::of(Some(&status)).id, None);
}

/// It would never grow to a number that says that a request was sent.
#[test]
fn a_negative_number_of_attempts_is_none() {
    let status = json!({ "operation": { "kind": "Delete", "startedAt": "2026-01-01T00:00:00.000001Z", "attempts": -2_000_000_000 } });
    let status: ClusterStatus = serde_json::from_value(status).unwrap();
    let operation = Durable::of(Some(&status)).operation.unwrap();
    assert_eq!(operation.attempts, 0);
}

use super::BrowserObject;

/// What the public controller writes today must stay readable, since a Browser may outlive a change of controllers.
#[test]
fn status_of_other_controllers_is_read() {
    let text = r#"{
        "apiVersion": "browser.selenosis.io/v1",
        "kind": "Browser",
        "metadata": { "name": "session-1", "namespace": "default" },
        "spec": { "browserName": "chrome", "browserVersion": "139.0" },
        "status": {
            "podIP": "10.1.0.7",
            "phase": "Running",
            "startTime": "2026-02-01T10:00:00Z",
            "containerStatuses": [{
                "name": "browser",
                "state": { "running": { "startedAt": "2026-02-01T10:00:02Z" } },
                "image": "example/chrome:139.0",
                "restartCount": 0,
                "ports": [{ "containerPort": 4444, "protocol": "TCP" }]
            }]
        }
    }"#;
    let browser: BrowserObject = serde_json::from_str(text).unwrap();
    let again: serde_json::Value = serde_json::to_value(&browser).unwrap();
    let before: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(again, before);
}

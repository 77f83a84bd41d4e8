use serde_json::{Value, json};

use super::{LaterChange, Operation};

fn pod() -> Value {
    json!({ "spec": {
        "containers": [{ "name": "a", "image": "a:1", "resources": { "limits": { "cpu": "1" } } }, { "name": "b", "image": "b:1" }],
        "initContainers": [{ "name": "i", "image": "i:1" }],
        "ephemeralContainers": [{ "name": "old", "image": "busybox" }],
    } })
}

/// What an operation changes, if this is written into the pod.
fn changes(operation: Operation, path: &str, value: Value) -> Vec<String> {
    let mut new = pod();
    match new.pointer_mut(path) {
        Some(place) => *place = value,
        None => new["spec"][path.trim_start_matches("/spec/")] = value,
    }
    let change = LaterChange::of(operation, &pod(), new);
    change.map(|(it, _)| it.changes).unwrap_or_default()
}

#[test]
fn each_operation_knows_what_it_changes() {
    use Operation::{Create, EphemeralContainers, Resize, Update};
    let debug = json!([{ "name": "old", "image": "busybox" }, { "name": "new" }]);
    for (operation, path, value, expected) in [
        (
            Update,
            "/spec/containers/0/image",
            json!("a:2"),
            "/spec/containers/[name=a]/image",
        ),
        (
            Update,
            "/spec/initContainers/0/image",
            json!("i:2"),
            "/spec/initContainers/[name=i]/image",
        ),
        (
            Update,
            "/spec/tolerations",
            json!([{ "key": "x" }]),
            "/spec/tolerations",
        ),
        (
            Update,
            "/spec/schedulingGates",
            json!([{ "name": "x" }]),
            "/spec/schedulingGates",
        ),
        // Nothing that an update may change.
        (Update, "/spec/ephemeralContainers", debug.clone(), ""),
        (Update, "/spec/containers/0/image", json!("a:1"), ""),
        (
            Resize,
            "/spec/containers/0/resources/limits/cpu",
            json!("2"),
            "/spec/containers/[name=a]/resources",
        ),
        (Resize, "/spec/containers/0/image", json!("a:2"), ""),
        (
            EphemeralContainers,
            "/spec/ephemeralContainers",
            debug,
            "/spec/ephemeralContainers/[name=new]",
        ),
        // One that was there before cannot change.
        (
            EphemeralContainers,
            "/spec/ephemeralContainers/0/image",
            json!("x"),
            "",
        ),
        (Create, "/spec/containers/0/image", json!("a:2"), ""),
    ] {
        let expected: Vec<&str> = Some(expected)
            .filter(|it| !it.is_empty())
            .into_iter()
            .collect();
        assert_eq!(
            changes(operation, path, value),
            expected,
            "{operation:?} {path}"
        );
    }
}

#[test]
fn plugins_write_only_what_the_operation_may_change() {
    let mut new = pod();
    new["spec"]["ephemeralContainers"] = json!([{ "name": "a/b" }, { "name": "c" }]);
    let (change, _) = LaterChange::of(Operation::EphemeralContainers, &pod(), new).unwrap();
    let places = [
        "/spec/ephemeralContainers/[name=a~1b]",
        "/spec/ephemeralContainers/[name=c]",
    ];
    assert_eq!(*change.places, places.map(str::to_owned));
    let mut new = pod();
    new["spec"]["containers"][0]["image"] = json!("a:2");
    let (change, _) = LaterChange::of(Operation::Update, &pod(), new).unwrap();
    assert!(
        change
            .places
            .contains(&"/spec/containers/*/image".to_owned())
    );
    assert!(!change.places.iter().any(|it| it.contains("labels")));
}

/// Seen in review: with `os.name: windows` in a request for a subresource, policies judged a pod that nobody stores.
#[test]
fn what_a_request_for_a_subresource_invents_is_not_seen() {
    let invented = || {
        let mut new = pod();
        new["metadata"] = json!({ "labels": { "exempt": "true" } });
        new["spec"]["os"] = json!({ "name": "windows" });
        new["spec"]["securityContext"] = json!({ "runAsNonRoot": true });
        new["spec"]["containers"][0]["image"] = json!("a:2");
        new
    };
    let mut debugged = invented();
    debugged["spec"]["ephemeralContainers"] = json!([{ "name": "old" }, { "name": "new" }]);
    let (_, stored) = LaterChange::of(Operation::EphemeralContainers, &pod(), debugged).unwrap();
    let mut expected = pod();
    expected["spec"]["ephemeralContainers"] = json!([{ "name": "old" }, { "name": "new" }]);
    assert_eq!(stored, expected);

    let mut resized = invented();
    resized["spec"]["containers"][0]["resources"]["limits"]["cpu"] = json!("2");
    let (_, stored) = LaterChange::of(Operation::Resize, &pod(), resized).unwrap();
    assert_eq!(
        stored["spec"]["containers"][0]["resources"]["limits"]["cpu"],
        "2"
    );
    assert_eq!(stored["spec"]["containers"][0]["image"], "a:1");
    assert_eq!(
        (&stored["metadata"], &stored["spec"]["os"]),
        (&Value::Null, &Value::Null)
    );
}

/// Anybody who reaches the webhook may send such a thing.
#[test]
fn what_no_api_server_sends_is_no_panic() {
    let odd = [
        json!(null),
        json!([]),
        json!({ "spec": 5 }),
        json!({ "spec": { "containers": "a", "ephemeralContainers": [3], "resources": 1 } }),
        json!({ "spec": { "containers": ["a"], "initContainers": [[]] } }),
    ];
    for old in &odd {
        for new in odd.iter().chain([&pod()]) {
            for operation in [
                Operation::Update,
                Operation::Resize,
                Operation::EphemeralContainers,
            ] {
                if let Some((change, _)) = LaterChange::of(operation, old, new.clone()) {
                    assert!(!change.changes.is_empty());
                }
            }
        }
    }
}

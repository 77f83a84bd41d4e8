use super::*;

fn spec(resources: &Value) -> Value {
    json!({ "containers": [
        { "name": "browser", "resources": resources, "resizePolicy": [{ "resourceName": "memory", "restartPolicy": "RestartContainer" }] },
        { "name": "proxy", "resources": { "limits": { "cpu": "1", "memory": "1Gi" } } },
    ] })
}

#[test]
fn only_what_differs_is_in_the_patch() {
    let small = spec(&json!({ "requests": { "cpu": "100m" } }));
    assert_eq!(patch(&small, &small), None);
    assert_eq!(
        patch(&small, &spec(&json!({ "requests": { "cpu": "0.1" } }))),
        None
    );
    let more = json!({ "requests": { "cpu": 2 } });
    assert_eq!(
        patch(&small, &spec(&more)),
        Some(json!({ "containers": [{ "name": "browser", "resources": more }] }))
    );
}

/// As in a pod that is created with the limit alone.
#[test]
fn a_request_that_comes_from_a_limit_is_resized_too() {
    let of = |cpu: &str| spec(&json!({ "limits": { "cpu": cpu } }));
    let resources = json!({ "limits": { "cpu": "2" }, "requests": { "cpu": "2" } });
    assert_eq!(
        patch(&of("1"), &of("2")),
        Some(json!({ "containers": [{ "name": "browser", "resources": resources }] }))
    );
}

#[test]
fn what_the_api_server_would_refuse_is_said_before() {
    let small = json!({ "requests": { "cpu": "100m" }, "limits": { "memory": "1Gi" } });
    let told = |to: Value| obstacle(&spec(&small), &spec(&to)).unwrap_or_default();
    assert_eq!(
        told(json!({ "requests": { "cpu": "2" }, "limits": { "memory": "1Gi", "cpu": "4" } })),
        ""
    );
    assert_eq!(
        told(json!({ "limits": { "memory": "1Gi" } })),
        "a resize cannot remove requests.cpu of container browser"
    );
    assert_eq!(
        told(json!({ "requests": { "cpu": "100m" }, "limits": { "memory": "2Gi" } })),
        "a resize of memory restarts container browser, by its resizePolicy"
    );
    assert_eq!(
        told(
            json!({ "requests": { "cpu": "100m" }, "limits": { "memory": "1Gi", "example.com/gpu": "1" } })
        ),
        "a resize cannot change limits.example.com/gpu of container browser"
    );
    assert_eq!(
        told(
            json!({ "requests": { "cpu": "2", "memory": "1Gi" }, "limits": { "memory": "1Gi", "cpu": "2" } })
        ),
        "a resize cannot change the QoS class from Burstable to Guaranteed"
    );
    let init = |cpu: &str, policy: Value| json!({ "initContainers": [{ "name": "fetch", "restartPolicy": policy, "resources": { "requests": { "cpu": cpu } } }] });
    assert_eq!(
        obstacle(&init("1", "Always".into()), &init("2", "Always".into())),
        None
    );
    assert_eq!(
        obstacle(&init("1", Value::Null), &init("2", Value::Null)).unwrap_or_default(),
        "a resize cannot change init container fetch, which has ended"
    );
}

#[test]
fn the_class_is_that_of_kubernetes() {
    let of = |resources: Value| qos(&spec(&resources));
    assert_eq!(
        of(json!({ "limits": { "cpu": "1000m", "memory": "1Gi" }, "requests": { "cpu": "1" } })),
        "Guaranteed"
    );
    assert_eq!(of(json!({ "limits": { "cpu": "1" } })), "Burstable");
    let none = json!({ "containers": [{ "name": "browser", "resources": { "requests": { "cpu": "0" } } }] });
    assert_eq!(qos(&none), "BestEffort");
}

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
    let why = |to: Value| obstacle(&spec(&small), &spec(&to)).unwrap_or_default();
    assert_eq!(
        why(json!({ "requests": { "cpu": "2" }, "limits": { "memory": "1Gi", "cpu": "4" } })),
        ""
    );
    assert_eq!(
        why(json!({ "limits": { "memory": "1Gi" } })),
        "a resize cannot remove requests.cpu of container browser"
    );
    assert_eq!(
        why(json!({ "requests": { "cpu": "100m" }, "limits": { "memory": "2Gi" } })),
        "a resize of memory restarts container browser, by its resizePolicy"
    );
    assert_eq!(
        why(
            json!({ "requests": { "cpu": "100m" }, "limits": { "memory": "1Gi", "example.com/gpu": "1" } })
        ),
        "a resize cannot change limits.example.com/gpu of container browser"
    );
    assert_eq!(
        why(
            json!({ "requests": { "cpu": "2", "memory": "1Gi" }, "limits": { "memory": "1Gi", "cpu": "2" } })
        ),
        "a resize cannot change the QoS class from Burstable to Guaranteed"
    );
    assert_eq!(
        why(json!({ "requests": { "cpu": "100m" }, "limits": { "memory": "512Mi" } })),
        "a resize cannot lower limits.memory of container browser"
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

/// A pod with these fields, whose only container has one of two sizes.
fn sized(rest: &Value, cpu: &str, memory: &str) -> Value {
    let mut spec = rest.clone();
    let mut browser = rest["containers"][0].clone();
    browser["name"] = "browser".into();
    browser["resources"] = json!({ "requests": { "cpu": cpu }, "limits": { "memory": memory } });
    spec["containers"] = json!([browser]);
    spec
}

#[test]
fn what_was_made_when_the_pod_started_keeps_it_from_being_resized() {
    let why = |rest: Value, memory: &str| {
        let (small, whole) = (sized(&rest, "1", "1Gi"), sized(&rest, "2", memory));
        assert_eq!(obstacle(&small, &small), None);
        obstacle(&small, &whole).unwrap_or_default()
    };
    let heap = json!({ "name": "HEAP", "valueFrom": { "resourceFieldRef": { "resource": "limits.memory" } } });
    let shm = |size: &Value| {
        let directory = json!({ "medium": "Memory", "sizeLimit": size });
        json!({ "volumes": [{ "name": "disk", "emptyDir": {} }, { "name": "shm", "emptyDir": directory }] })
    };
    let too_large = "volume shm gets its size from limits.memory when the pod starts: give it a sizeLimit of at most 1Gi";
    for (rest, memory, expected) in [
        (
            json!({ "containers": [{ "env": [heap] }] }),
            "1Gi",
            "variable HEAP of container browser is read from its resources when it starts, before the resize",
        ),
        (shm(&Value::Null), "2Gi", too_large),
        (shm(&json!("2Gi")), "2Gi", too_large),
        (shm(&json!("0")), "2Gi", too_large),
        (shm(&json!("1024Mi")), "2Gi", ""),
        (shm(&Value::Null), "1Gi", ""),
        (
            json!({ "resources": {} }),
            "1Gi",
            "a pod with resources of its own is not resized",
        ),
        (
            json!({ "os": { "name": "windows" } }),
            "1Gi",
            "a pod for Windows cannot be resized",
        ),
    ] {
        assert_eq!(why(rest, memory), expected);
    }
    let claims = |name: &str| {
        let resources = json!({ "claims": [{ "name": name }] });
        json!({ "containers": [{ "name": "browser", "resources": resources }] })
    };
    assert_eq!(
        obstacle(&claims("a"), &claims("b")).unwrap_or_default(),
        "a resize cannot change claims of container browser"
    );
}

#[test]
fn an_answer_that_lacks_what_was_asked_for_is_none() {
    let of = |cpu: &str| sized(&json!({}), cpu, "1Gi");
    let asked = patch(&of("1"), &of("2")).unwrap_or_default();
    assert!(is_done(&asked, &of("2000m")));
    assert!(!is_done(&asked, &of("1")) && !is_done(&asked, &json!({})));
}

#[test]
fn the_class_is_that_of_kubernetes() {
    let of = |resources: Value| qos(&spec(&resources));
    assert_eq!(
        of(json!({ "limits": { "cpu": "1000m", "memory": "1Gi" }, "requests": { "cpu": "1" } })),
        "Guaranteed"
    );
    assert_eq!(of(json!({ "limits": { "cpu": "1" } })), "Burstable");
    let alone =
        |resources: Value| json!({ "containers": [{ "name": "browser", "resources": resources }] });
    let none = json!({ "requests": { "cpu": "0" } });
    assert_eq!(qos(&alone(none)), "BestEffort");
    let nothing = json!({ "requests": { "cpu": "0", "memory": "0" }, "limits": { "cpu": "1", "memory": "1Gi" } });
    assert_eq!(qos(&alone(nothing)), "Burstable");
}

//! Who owns which path.

use serde_json::{Value, json};

use super::ManagedFields;

/// Enough for these.
const WORK: u64 = 10_000;

/// A pod as a ReplicaSet made it, and as others changed it later.
fn pod() -> Value {
    serde_json::from_str(include_str!("tests/pod.json")).unwrap()
}

fn names<'e>(entries: &[&'e super::Entry]) -> Vec<&'e str> {
    entries.iter().map(|it| it.manager.as_str()).collect()
}

#[track_caller]
fn check(path: &str, owners: &[&str]) {
    let pod = pod();
    let fields = ManagedFields::of(&pod, WORK);
    assert_eq!(names(&fields.owners(path)), owners, "{path}");
}

#[test]
fn the_value_at_a_path_has_owners() {
    check(
        "/metadata/labels/app.kubernetes.io~1name",
        &["kube-controller-manager"],
    );
    check("/metadata/labels/team", &["kubectl-label"]);
    check("/metadata/labels", &["kube-controller-manager"]);
    check("/metadata/labels/other", &[]);
    check("/metadata/name", &[]);
    check(
        "/spec/containers/[name=web]",
        &["kube-controller-manager", "patcher"],
    );
    check("/spec/containers/[name=web]/image", &["patcher"]);
    check("/spec/containers/[name=other]", &[]);
    check(
        "/spec/containers/[name=web]/env/[name=TZ]/value",
        &["kube-controller-manager"],
    );
    check("/spec/containers/[name=web]/env/[name=LANG]", &[]);
    check(
        "/spec/containers/[name=web]/volumeMounts/[mountPath=~1data]/name",
        &["kube-controller-manager"],
    );
    check("/status/phase", &["kubelet"]);
    check("/status/conditions/[type=Ready]/status", &["kubelet"]);
}

#[test]
fn elements_may_be_named_by_their_index() {
    check("/spec/containers/0/image", &["patcher"]);
    check("/spec/containers/0/env/0", &["kube-controller-manager"]);
    check("/spec/containers/0/env/1", &[]);
    check("/spec/containers/0/env/9", &[]);
    check("/metadata/finalizers/0", &[]);
    check("/metadata/finalizers/1", &["kube-controller-manager"]);
}

#[test]
fn an_element_with_several_keys_is_found_by_all_of_them() {
    check(
        "/spec/containers/[name=web]/ports/0/protocol",
        &["kube-controller-manager"],
    );
    check("/spec/containers/[name=web]/ports/1/protocol", &["patcher"]);
    // The first one, which this names in the pod.
    check(
        "/spec/containers/[name=web]/ports/[containerPort=80]/protocol",
        &["kube-controller-manager"],
    );
}

#[test]
fn atomic_lists_and_maps_are_owned_as_a_whole() {
    check(
        "/spec/containers/[name=web]/args",
        &["kube-controller-manager"],
    );
    check(
        "/spec/containers/[name=web]/args/1",
        &["kube-controller-manager"],
    );
    check("/spec/nodeSelector/disk", &["kube-controller-manager"]);
}

#[test]
fn what_is_in_a_value_has_owners_too() {
    let pod = pod();
    let fields = ManagedFields::of(&pod, WORK);
    let within = |path: &str| names(&fields.owners_within(path));
    assert_eq!(
        within("/spec/containers"),
        ["kube-controller-manager", "patcher"]
    );
    assert_eq!(
        within("/spec/containers/[name=web]/args/0"),
        ["kube-controller-manager"]
    );
    assert_eq!(
        within("/metadata/labels"),
        ["kube-controller-manager", "kubectl-label"]
    );
    assert!(within("/metadata/annotations").is_empty());
}

#[test]
fn who_gave_the_containers_made_the_pod_whatever_the_time() {
    let pod = pod();
    let fields = ManagedFields::of(&pod, WORK);
    let kinds: Vec<_> = fields
        .entries()
        .map(|it| {
            (
                it.manager.as_str(),
                it.applies,
                it.is_maker,
                it.is_later_edit(),
            )
        })
        .collect();
    assert_eq!(
        kinds,
        [
            ("kube-controller-manager", false, true, false),
            ("kubectl-label", false, false, true),
            ("patcher", true, false, true),
            ("kubelet", false, false, false),
        ]
    );
}

/// The makers of an object with these entries: manager, operation, seconds after it was made, and fields of its spec.
#[track_caller]
fn check_makers(entries: &[(&str, &str, u32, Value)], expected: &[&str]) {
    let entries = entries.iter().map(|(manager, operation, second, spec)| {
        let time = format!("2026-11-25T10:00:{second:02}Z");
        json!({ "manager": manager, "operation": operation, "time": time, "fieldsV1": { "f:spec": spec } })
    });
    let object = json!({ "metadata": {
        "creationTimestamp": "2026-11-25T10:00:00Z",
        "managedFields": entries.collect::<Vec<_>>(),
    } });
    let fields = ManagedFields::of(&object, WORK);
    let makers: Vec<&super::Entry> = fields.entries().filter(|it| it.is_maker).collect();
    assert_eq!(names(&makers), expected);
}

#[test]
fn the_first_entries_made_the_object() {
    let containers = json!({ "f:containers": { "k:{\"name\":\"a\"}": { ".": {}, "f:name": {} } } });
    let selector = json!({ "f:selector": {} });
    let (made, other) = (&selector, &json!({ "f:replicas": {} }));
    check_makers(
        &[
            ("a", "Update", 9, made.clone()),
            ("b", "Update", 0, other.clone()),
        ],
        &["a"],
    );
    check_makers(
        &[
            ("a", "Apply", 9, made.clone()),
            ("b", "Update", 9, made.clone()),
        ],
        &["b"],
    );
    check_makers(
        &[
            ("a", "Apply", 9, containers.clone()),
            ("b", "Apply", 7, containers),
        ],
        &["b"],
    );
    check_makers(
        &[
            ("a", "Update", 0, other.clone()),
            ("b", "Update", 1, other.clone()),
        ],
        &["a"],
    );
    check_makers(&[], &[]);
}

#[test]
fn what_makes_no_sense_is_left_out() {
    let mut deep = json!({});
    for _ in 0..200 {
        deep = json!({ "f:a": deep });
    }
    let odd = [
        json!(null),
        json!(7),
        json!({}),
        json!({ "operation": "Update" }),
        json!({ "operation": 1, "fieldsV1": {} }),
        json!({ "operation": "Update", "fieldsV1": null, "time": "never", "manager": {} }),
        json!({ "operation": "Update", "fieldsV1": { "": {}, ":": {}, "f:": 1, "k:": {}, "k:[]": {}, "k:{": {}, "v:{": {}, "i:x": {}, "x:y": {} } }),
        json!({ "operation": "Update", "fieldsV1": { "f:metadata": { "k:{\"name\":{}}": [], "i:99999999999999999999": {} } } }),
        json!({ "operation": "Update", "fieldsV1": deep }),
    ];
    for odd in odd {
        for pod in [
            json!({ "metadata": { "managedFields": [odd] } }),
            json!({ "metadata": { "managedFields": odd } }),
            json!({ "metadata": [odd] }),
        ] {
            let fields = ManagedFields::of(&pod, WORK);
            for path in [
                "",
                "/",
                "x",
                "/metadata/0/[",
                "/metadata/[name=]",
                "/metadata/[=]",
                "/~/~1~",
                "/a/-/a",
                "/metadata/\u{1f}é",
            ] {
                fields.owners(path);
                fields.owners_within(path);
            }
            assert!(fields.owners("/spec").is_empty());
        }
    }
}

#[test]
fn there_is_a_limit() {
    let entry = |number: usize| json!({ "manager": number.to_string(), "operation": "Update", "fieldsV1": {} });
    let many: Vec<Value> = (0..101).map(entry).collect();
    let pod = json!({ "metadata": { "managedFields": many } });
    let fields = ManagedFields::of(&pod, WORK);
    assert!(fields.is_cut());
    assert_eq!(fields.entries().count(), 100);

    let wide: serde_json::Map<String, Value> = (0..100_001)
        .map(|it| (format!("f:{it}"), json!({})))
        .collect();
    let entry = json!({ "operation": "Update", "fieldsV1": wide });
    let pod = json!({ "metadata": { "managedFields": [entry] } });
    assert!(ManagedFields::of(&pod, WORK).is_cut());
}

#[test]
fn who_owns_an_empty_object_owns_nothing_of_others_in_it() {
    let labels = json!({ "f:metadata": { "f:labels": {}, "f:annotations": {} } });
    let empty = json!({ "f:containers": { "k:{\"name\":\"web\"}": { ".": {}, "f:env": {}, "f:securityContext": {} } },
        "f:nodeSelector": {}, "f:tolerations": {} });
    let pod = json!({
        "metadata": {
            "labels": { "team": "shop" }, "annotations": { "a": "b" },
            "managedFields": [
                { "manager": "labels", "operation": "Apply", "fieldsV1": labels },
                { "manager": "spec", "operation": "Apply", "fieldsV1": { "f:spec": empty } },
            ],
        },
        "spec": {
            "containers": [{ "name": "web", "env": [{ "name": "TZ" }], "securityContext": { "privileged": false } }],
            "nodeSelector": { "disk": "ssd" }, "tolerations": [{ "key": "a" }],
        },
        "status": { "hostIPs": [{ "ip": "10.0.0.1" }] },
    });
    let fields = ManagedFields::of(&pod, WORK);
    let owners = |path: &str| {
        let [of, within] = [fields.owners(path), fields.owners_within(path)];
        assert_eq!(of, within, "{path}");
        names(&of).join(" ")
    };
    for (path, expected) in [
        ("/metadata/labels", "labels"),
        ("/metadata/labels/team", ""),
        ("/metadata/annotations/a", ""),
        ("/spec/containers/[name=web]/env", "spec"),
        ("/spec/containers/[name=web]/env/[name=TZ]", ""),
        ("/spec/containers/[name=web]/securityContext/privileged", ""),
        // These are one value.
        ("/spec/nodeSelector/disk", "spec"),
        ("/spec/tolerations/0/key", "spec"),
    ] {
        assert_eq!(owners(path), expected, "{path}");
    }
}

/// Lists of a pod, of managedFields and of a stamp can be long together.
#[test]
fn long_lists_are_looked_at_for_a_limited_time() {
    let name = |number: usize| format!("n{number}");
    let elements: Vec<Value> = (0..5_000).map(|it| json!({ "name": name(it) })).collect();
    let keys = (0..5_000).map(|it| {
        (
            format!("k:{{\"name\":\"{}\"}}", name(it)),
            json!({ ".": {} }),
        )
    });
    let fields = json!({ "f:spec": { "f:volumes": keys.collect::<serde_json::Map<_, _>>() } });
    let entry =
        |manager: &str| json!({ "manager": manager, "operation": "Update", "fieldsV1": fields });
    let pod = json!({ "metadata": { "managedFields": [entry("a"), entry("b")] }, "spec": { "volumes": elements } });
    let fields = ManagedFields::of(&pod, 100_000);
    let path = |number: usize| format!("/spec/volumes/[name={}]", name(number));
    assert_eq!(names(&fields.owners(&path(4_000))), ["a", "b"]);
    let began = std::time::Instant::now();
    let known = (0..50_000).filter(|_| !fields.owners_within(&path(4_999)).is_empty());
    assert!(known.count() < 10);
    assert!(fields.is_cut());
    assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
}

//! Paths that plugins never write, whatever they are granted.

use serde_json::json;

use super::{Call, Remove, Set, check_refused, kind, make, pod, unrestricted};

#[test]
fn never_written_paths_are_refused() {
    for (path, value, never) in [
        ("/apiVersion", "\"v2\"", "/apiVersion"),
        ("/kind", "\"Job\"", "/kind"),
        ("/status", "{}", "/status"),
        ("/status/phase", "\"Running\"", "/status"),
        ("/metadata/name", "\"x\"", "/metadata/name"),
        ("/metadata/generateName", "\"x\"", "/metadata/generateName"),
        ("/metadata/namespace", "\"x\"", "/metadata/namespace"),
        ("/metadata/uid", "\"x\"", "/metadata/uid"),
        (
            "/metadata/ownerReferences/-",
            "{}",
            "/metadata/ownerReferences",
        ),
        ("/metadata/finalizers", "[]", "/metadata/finalizers"),
        (
            "/metadata/resourceVersion",
            "\"1\"",
            "/metadata/resourceVersion",
        ),
        ("/metadata/managedFields", "[]", "/metadata/managedFields"),
    ] {
        let canonical = path.replace('-', "0");
        let text = format!(
            "writing {canonical} is forbidden: plugins never change {never}, whatever they are granted; leave it as it is"
        );
        check_refused(unrestricted(), Set(path, value), "forbidden", &text);
    }
    check_refused(
        unrestricted(),
        Remove("/metadata/name"),
        "forbidden",
        "writing /metadata/name is forbidden: plugins never change /metadata/name, whatever they are granted; leave it as it is",
    );
}

#[track_caller]
fn check_whole(path: &str, change: impl FnOnce(&mut serde_json::Value), expected: &str) {
    let mut changed = pod();
    change(&mut changed);
    let value = changed.pointer(path).unwrap().to_string();
    let mut transaction = unrestricted();
    let outcome = make(&mut transaction, Set(path, &value));
    assert_eq!(kind(&outcome), expected, "{path} {value}");
    assert_eq!(
        transaction.refused_writes(),
        usize::from(expected == "forbidden")
    );
    assert_eq!(
        transaction.pod,
        if expected == "fine" { changed } else { pod() }
    );
}

#[test]
fn they_are_refused_inside_a_larger_value_too() {
    check_whole("", |pod| pod["kind"] = json!("Job"), "forbidden");
    check_whole("", |pod| pod["metadata"]["uid"] = json!("x"), "forbidden");
    check_whole(
        "",
        |pod| pod["metadata"]["labels"]["app"] = json!("x"),
        "forbidden",
    );
    check_whole("", |pod| pod["metadata"] = json!({}), "forbidden");
    check_whole("", |pod| pod["spec"]["hostNetwork"] = json!(true), "fine");
    check_whole(
        "/metadata",
        |pod| pod["metadata"]["name"] = json!("x"),
        "forbidden",
    );
    check_whole(
        "/metadata",
        |pod| pod["metadata"]["finalizers"] = json!([]),
        "forbidden",
    );
    check_whole(
        "/metadata",
        |pod| pod["metadata"]["annotations"] = json!({ "podloom.dev/x": "y" }),
        "forbidden",
    );
    check_whole(
        "/metadata",
        |pod| pod["metadata"]["labels"]["new"] = json!("x"),
        "fine",
    );
}

#[test]
fn whole_maps_are_written_if_protected_values_stay() {
    check_whole(
        "/metadata/labels",
        |pod| pod["metadata"]["labels"]["new"] = json!("x"),
        "fine",
    );
    check_whole(
        "/metadata/labels",
        |pod| pod["metadata"]["labels"]["selenosis.io/new"] = json!("x"),
        "forbidden",
    );
    check_whole(
        "/metadata/labels",
        |pod| {
            drop(
                pod["metadata"]["labels"]
                    .as_object_mut()
                    .unwrap()
                    .remove("app"),
            )
        },
        "forbidden",
    );
    check_whole(
        "/metadata/labels",
        |pod| pod["metadata"]["labels"] = json!({}),
        "forbidden",
    );
    check_whole(
        "/metadata/annotations",
        |pod| pod["metadata"]["annotations"] = json!({ "a": "b" }),
        "fine",
    );
    check_whole(
        "/metadata/annotations",
        |pod| pod["metadata"]["annotations"] = json!({ "podloom.dev/chain": "b" }),
        "forbidden",
    );
}

#[track_caller]
fn check_key(call: Call<'_>, expected: &str) {
    assert_eq!(kind(&make(&mut unrestricted(), call)), expected, "{call:?}");
}

#[test]
fn reserved_and_selected_labels_cannot_change() {
    check_key(
        Set("/metadata/labels/selenosis.io~1browser", "\"firefox\""),
        "forbidden",
    );
    check_key(
        Set("/metadata/labels/selenosis.io~1browser", "\"chrome\""),
        "fine",
    );
    check_key(
        Set("/metadata/labels/selenosis.io~1new", "\"x\""),
        "forbidden",
    );
    check_key(
        Remove("/metadata/labels/selenosis.io~1browser"),
        "forbidden",
    );
    check_key(Remove("/metadata/labels/selenosis.io~1absent"), "fine");
    check_key(Remove("/metadata/labels"), "forbidden");
    check_key(Set("/metadata/labels/x.selenosis.io~1new", "\"x\""), "fine");
    check_key(Set("/metadata/labels/podloom.dev~1new", "\"x\""), "fine");
    check_key(Set("/metadata/labels/app", "\"other\""), "forbidden");
    check_key(Set("/metadata/labels/app", "\"web\""), "fine");
    check_key(Remove("/metadata/labels/app"), "forbidden");
    check_key(Set("/metadata/labels/application", "\"x\""), "fine");
}

#[test]
fn annotations_of_the_host_cannot_change() {
    check_key(
        Set("/metadata/annotations/podloom.dev~1chain", "\"x\""),
        "forbidden",
    );
    check_key(
        Set(
            "/metadata/annotations/sidecar.podloom.dev~1injected",
            "\"x\"",
        ),
        "fine",
    );
    check_key(
        Set("/metadata/annotations/selenosis.io~1x", "\"x\""),
        "fine",
    );
    check_key(Set("/metadata/annotations/app", "\"x\""), "fine");
    check_key(Set("/metadata/annotations/podloom.dev", "\"x\""), "fine");
}

#[test]
fn the_refusal_says_why() {
    for (call, text) in [
        (
            Set("/metadata/labels/selenosis.io~1x", "\"x\""),
            "writing /metadata/labels/selenosis.io~1x is forbidden: plugins never change the labels selenosis.io/*, such as selenosis.io/x; leave it as it is",
        ),
        (
            Remove("/metadata/labels/app"),
            "writing /metadata/labels/app is forbidden: the workload's selector matches the label app, so a change would orphan the pod; leave it as it is",
        ),
        (
            Set("/metadata/annotations/podloom.dev~1chain", "\"x\""),
            "writing /metadata/annotations/podloom.dev~1chain is forbidden: only the host writes the annotations podloom.dev/*, such as podloom.dev/chain; use a prefix of your own, such as sidecar.podloom.dev/",
        ),
    ] {
        check_refused(unrestricted(), call, "forbidden", text);
    }
}

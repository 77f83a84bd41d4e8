//! The patch for each kind of write.

use serde_json::{Value, json};

use super::{Call, Insert, Remove, Set, granted, make, pod, unrestricted};
use crate::{Patch, Transaction};

/// Applies a patch with an independent implementation.
pub(super) fn patched(mut pod: Value, patch: &str) -> Value {
    let patch: json_patch::Patch = serde_json::from_str(patch).expect("a JSON Patch");
    json_patch::patch(&mut pod, &patch).expect("a patch that fits the pod");
    pod
}

fn patch_of(transaction: Transaction) -> (Value, String) {
    let (after, writes, traces) = transaction.commit_traced();
    let mut patch = Patch::within(usize::MAX);
    for (write, trace) in writes.iter().zip(&traces) {
        patch.write(write, trace);
    }
    (after, patch.finish().expect("no limit"))
}

/// Checks that the calls give this patch, and that the patch gives the same pod.
#[track_caller]
fn check(mut transaction: Transaction, calls: &[Call<'_>], expected: &[Value]) {
    for call in calls {
        make(&mut transaction, *call).unwrap();
    }
    let (after, patch) = patch_of(transaction);
    let operations: Value = serde_json::from_str(&patch).expect("JSON");
    assert_eq!(operations, json!(expected), "{calls:?}");
    assert_eq!(patched(pod(), &patch), after, "{calls:?}");
}

fn add(path: &str, value: impl Into<Value>) -> Value {
    json!({ "op": "add", "path": path, "value": value.into() })
}

fn replace(path: &str, value: impl Into<Value>) -> Value {
    json!({ "op": "replace", "path": path, "value": value.into() })
}

fn remove(path: &str) -> Value {
    json!({ "op": "remove", "path": path })
}

#[test]
fn fields_are_added_replaced_and_removed() {
    check(
        unrestricted(),
        &[
            Set("/spec/hostNetwork", " true "),
            Set("/spec/hostPID", "true"),
            Remove("/spec/hostPID"),
        ],
        &[
            replace("/spec/hostNetwork", true),
            add("/spec/hostPID", true),
            remove("/spec/hostPID"),
        ],
    );
}

#[test]
fn a_field_that_is_null_is_added() {
    check(
        unrestricted(),
        &[Set("/metadata/creationTimestamp", "\"t\"")],
        &[add("/metadata/creationTimestamp", "t")],
    );
}

#[test]
fn an_element_that_is_null_is_replaced() {
    check(
        unrestricted(),
        &[Set("/spec/tomorrow/list/1", "2")],
        &[replace("/spec/tomorrow/list/1", 2)],
    );
}

#[test]
fn created_parents_are_part_of_the_value() {
    check(
        unrestricted(),
        &[
            Set("/metadata/annotations/a", "\"b\""),
            Set("/metadata/annotations/c", "\"d\""),
            Set(
                "/spec/securityContext/seccompProfile/type",
                "\"RuntimeDefault\"",
            ),
            Set("/spec/volumes/[name=tmp]", "{}"),
        ],
        &[
            add("/metadata/annotations", json!({ "a": "b" })),
            add("/metadata/annotations/c", "d"),
            add(
                "/spec/securityContext",
                json!({ "seccompProfile": { "type": "RuntimeDefault" } }),
            ),
            add("/spec/volumes", json!([{ "name": "tmp" }])),
        ],
    );
}

#[test]
fn elements_are_named_by_their_index_at_that_time() {
    check(
        unrestricted(),
        &[
            Set("/spec/containers/[name=proxy]/image", "\"envoy:2\""),
            Insert("/spec/containers/0", r#"{"name": "first"}"#),
            Set("/spec/containers/[name=proxy]/image", "\"envoy:3\""),
            Remove("/spec/containers/[name=browser]"),
            Set("/spec/containers/[name=proxy]/env/[name=TZ]/value", "\"x\""),
            Set("/spec/containers/-", r#"{"name": "last"}"#),
            Set("/spec/containers/[name=last]", r#"{"image": "x"}"#),
            Insert("/spec/containers/3", r#"{"name": "end"}"#),
        ],
        &[
            replace("/spec/containers/1/image", "envoy:2"),
            add("/spec/containers/0", json!({ "name": "first" })),
            replace("/spec/containers/2/image", "envoy:3"),
            remove("/spec/containers/1"),
            replace("/spec/containers/1/env/0/value", "x"),
            add("/spec/containers/2", json!({ "name": "last" })),
            replace(
                "/spec/containers/2",
                json!({ "name": "last", "image": "x" }),
            ),
            add("/spec/containers/3", json!({ "name": "end" })),
        ],
    );
}

#[test]
fn keys_are_escaped_and_not_confused_with_indices() {
    check(
        unrestricted(),
        &[
            Set("/metadata/labels/example.com~1a~0b", "\"y\""),
            Set("/metadata/annotations/0", "\"a\""),
            Set("/spec/new/a~1b~0\"\\\n/0", "1"),
            Set("/spec/tomorrow/[a=b]", "\"c\""),
            Set("/spec/tomorrow/\"\\\n", "\"d\""),
        ],
        &[
            replace("/metadata/labels/example.com~1a~0b", "y"),
            add("/metadata/annotations", json!({ "0": "a" })),
            add("/spec/new", json!({ "a/b~\"\\\n": { "0": 1 } })),
            add("/spec/tomorrow/[a=b]", "c"),
            add("/spec/tomorrow/\"\\\n", "d"),
        ],
    );
}

/// Parsers differ on duplicate keys, so a plugin could show one value to the host and another to the API server.
#[test]
fn a_value_is_that_of_the_pod_and_not_the_plugins_text() {
    let mut transaction = granted(&[], &["/spec/volumes"]);
    let twice = r#"{ "name": "x", "emptyDir": { "medium": "Memory" }, "emptyDir": {} }"#;
    transaction
        .set("/spec/volumes/-", twice.to_owned())
        .unwrap();
    let (_, patch) = patch_of(transaction);
    let list = r#"{"op":"add","path":"/spec/volumes","value":[{"emptyDir":{},"name":"x"}]}"#;
    assert_eq!(patch, format!("[{list}]"));
}

#[test]
fn refused_and_needless_writes_are_not_in_it() {
    let mut transaction = unrestricted();
    assert!(transaction.set("/status", "{}".to_owned()).is_err());
    assert!(
        transaction
            .set("/spec/hostNetwork", "false".to_owned())
            .is_ok()
    );
    assert!(!transaction.remove("/spec/hostPID").unwrap());
    assert_eq!(patch_of(transaction), (pod(), "[]".to_owned()));
}

/// A write is charged for its operation, so no patch is longer than the charged memory. Each byte of the path is in it once.
#[test]
fn a_patch_is_no_longer_than_what_was_charged() {
    let deep = |key: &str| format!("/spec/tomorrow/{key}{}", "/a".repeat(60));
    let odd = "\u{1}".repeat(800);
    for path in [
        deep(&odd),
        format!("/spec/tomorrow/{odd}"),
        format!("/spec/new{}", "/\"\\".repeat(62)),
        format!("/spec/tomorrow/{}", "~0~1".repeat(200)),
    ] {
        for value in [
            "1",
            "1e300",
            "-0.0",
            "[1e15,1e15,1e15,1e15]",
            "\"\\u0001\\n\"",
        ] {
            let mut transaction = unrestricted();
            transaction
                .set(&path, value.to_owned())
                .or_else(|_| transaction.set(&path, "\"\\u0001\"".to_owned()))
                .unwrap();
            let charged = transaction.held();
            let (after, patch) = patch_of(transaction);
            assert!(
                patch.len() <= charged,
                "{path}: {} of {charged}",
                patch.len()
            );
            assert!(
                patch.len() < 6 * path.len() + 500,
                "{path}: {}",
                patch.len()
            );
            assert_eq!(patched(pod(), &patch), after);
        }
    }
}

#[test]
fn a_patch_that_is_too_long_is_dropped() {
    let value = Value::from("0123456789");
    let whole = r#"[{"op":"add","path":"/a","value":"0123456789"}]"#;
    for (limit, expected) in [
        (whole.len(), Some(whole)),
        (whole.len() - 1, None),
        (0, None),
    ] {
        let mut patch = Patch::within(limit);
        patch.add("/a", &value);
        assert_eq!(patch.finish().as_deref(), expected, "{limit}");
    }
    // It does not grow meanwhile.
    let mut patch = Patch::within(100);
    (0..10_000).for_each(|_| patch.add("/a", &value));
    assert!(format!("{patch:?}").len() < 2000);
    assert_eq!(patch.finish(), None);
}

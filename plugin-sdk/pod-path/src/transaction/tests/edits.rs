//! The results of `set`, `insert` and `remove`.

use serde_json::{Value, json};

use super::{Call, Insert, Remove, Set, check_refused, make, pod, unrestricted};

/// Checks the value at a path after the call, and that a rollback undoes it.
#[track_caller]
fn check(call: Call<'_>, at: &str, expected: &Value) {
    let mut transaction = unrestricted();
    assert_eq!(make(&mut transaction, call), Ok(true), "{call:?}");
    assert_eq!(transaction.pod.pointer(at), Some(expected), "{call:?}");
    assert_eq!(transaction.log.len(), 1, "{call:?}");
    assert_eq!(
        transaction.rollback().to_string(),
        pod().to_string(),
        "{call:?}"
    );
}

#[test]
fn set_writes_fields() {
    check(
        Set("/spec/hostNetwork", "true"),
        "/spec/hostNetwork",
        &json!(true),
    );
    check(
        Set("/spec/nodeName", "\"n\""),
        "/spec/nodeName",
        &json!("n"),
    );
    check(
        Set("/metadata/labels/a.b~1c", "\"x\""),
        "/metadata/labels/a.b~1c",
        &json!("x"),
    );
    check(
        Set("/spec/hostNetwork", "null"),
        "/spec/hostNetwork",
        &json!(null),
    );
    check(
        Set("/spec/tomorrow/flag", "[{}]"),
        "/spec/tomorrow",
        &json!({ "flag": [{}], "list": pod()["spec"]["tomorrow"]["list"] }),
    );
}

#[test]
fn set_creates_missing_parents_by_the_schema() {
    check(
        Set("/metadata/annotations/a", "\"b\""),
        "/metadata/annotations",
        &json!({ "a": "b" }),
    );
    check(
        Set(
            "/spec/securityContext/seccompProfile/type",
            "\"RuntimeDefault\"",
        ),
        "/spec/securityContext",
        &json!({ "seccompProfile": { "type": "RuntimeDefault" } }),
    );
    check(
        Set("/spec/volumes/-", r#"{"name":"a"}"#),
        "/spec/volumes",
        &json!([{ "name": "a" }]),
    );
    check(
        Set(
            "/spec/containers/[name=browser]/securityContext/capabilities/drop/-",
            "\"ALL\"",
        ),
        "/spec/containers/0/securityContext",
        &json!({ "capabilities": { "drop": ["ALL"] } }),
    );
    check(
        Set("/metadata/annotations/0", "\"b\""),
        "/metadata/annotations",
        &json!({ "0": "b" }),
    );
}

#[test]
fn unknown_parents_are_lists_only_if_the_next_segment_is_for_lists() {
    check(Set("/spec/new/0", "1"), "/spec/new", &json!({ "0": 1 }));
    check(
        Set("/spec/new/a/b", "1"),
        "/spec/new",
        &json!({ "a": { "b": 1 } }),
    );
    check(Set("/spec/new/-", "1"), "/spec/new", &json!([1]));
    check(
        Set("/spec/new/below/[id=7]", r#"{"x":1}"#),
        "/spec/new",
        &json!({ "below": [{ "id": "7", "x": 1 }] }),
    );
}

#[test]
fn set_replaces_and_appends_elements() {
    check(
        Set("/spec/containers/0/args/1", "\"c\""),
        "/spec/containers/0/args",
        &json!(["a", "c"]),
    );
    check(
        Set("/spec/containers/0/args/-", "\"c\""),
        "/spec/containers/0/args",
        &json!(["a", "b", "c"]),
    );
    check(
        Set("/spec/containers/[name=proxy]", r#"{"image":"x"}"#),
        "/spec/containers/1",
        &json!({ "name": "proxy", "image": "x" }),
    );
    check(
        Set("/spec/containers/[name=new]", r#"{"image":"x"}"#),
        "/spec/containers/2",
        &json!({ "name": "new", "image": "x" }),
    );
    check(
        Set("/spec/containers/[name=new]", r#"{"name":null}"#),
        "/spec/containers/2",
        &json!({ "name": "new" }),
    );
    check(
        Set("/spec/tomorrow/list/1", "2"),
        "/spec/tomorrow/list/1",
        &json!(2),
    );
}

#[test]
fn the_key_field_is_filled_in_with_the_type_of_the_field() {
    let ports = "/spec/containers/0/ports";
    check(
        Set(&format!("{ports}/[containerPort=70]"), "{}"),
        &format!("{ports}/3"),
        &json!({ "containerPort": 70 }),
    );
    check(
        Set(&format!("{ports}/[name=http]"), "{}"),
        &format!("{ports}/3"),
        &json!({ "name": "http" }),
    );
    check(
        Set("/spec/containers/0/volumeMounts/[readOnly=true]", "{}"),
        "/spec/containers/0/volumeMounts/1",
        &json!({ "readOnly": true }),
    );
    check(
        Set("/spec/tomorrow/list/[on=false]", "{}"),
        "/spec/tomorrow/list/3",
        &json!({ "on": "false" }),
    );
    check(
        Set("/spec/imagePullSecrets/[name=a~1b]=]", "{}"),
        "/spec/imagePullSecrets",
        &json!([{ "name": "a/b]=" }]),
    );
}

#[test]
fn insert_shifts_elements() {
    check(
        Insert("/spec/containers/0/args/0", "\"c\""),
        "/spec/containers/0/args",
        &json!(["c", "a", "b"]),
    );
    check(
        Insert("/spec/containers/0/args/2", "\"c\""),
        "/spec/containers/0/args",
        &json!(["a", "b", "c"]),
    );
    check(
        Insert(
            "/spec/containers/[name=proxy]/env/[name=ODD]",
            r#"{"name":"X"}"#,
        ),
        "/spec/containers/1/env/1",
        &json!({ "name": "X" }),
    );
}

#[test]
fn remove_leaves_parents() {
    check(
        Remove("/spec/hostNetwork"),
        "/spec/tomorrow/flag",
        &json!(true),
    );
    check(
        Remove("/spec/containers/0/volumeMounts/0"),
        "/spec/containers/0/volumeMounts",
        &json!([]),
    );
    check(
        Remove("/spec/containers/[name=browser]"),
        "/spec/containers/0/name",
        &json!("proxy"),
    );
    check(
        Remove("/spec/tomorrow/list/1"),
        "/spec/tomorrow/list/0",
        &json!(1),
    );
    check(
        Remove("/spec/tomorrow/list/[on=true]/kind"),
        "/spec/tomorrow/list/2",
        &json!({ "on": true }),
    );
}

/// Checks that the call changes nothing, and is not a write.
#[track_caller]
fn check_idle(call: Call<'_>, expected: bool) {
    let mut transaction = unrestricted();
    assert_eq!(make(&mut transaction, call), Ok(expected), "{call:?}");
    assert_eq!(transaction.commit(), (pod(), vec![]), "{call:?}");
}

#[test]
fn an_equal_value_is_not_written() {
    check_idle(Set("/metadata/labels/app", "\"web\""), true);
    check_idle(Set("/spec/containers/0/args", r#" [ "a", "b" ] "#), true);
    check_idle(
        Set(
            "/spec/containers/[name=proxy]/env/[name=TZ]",
            r#"{"value":"UTC"}"#,
        ),
        true,
    );
    check_idle(Set("/metadata/creationTimestamp", "null"), true);
    check_idle(Set("/spec/securityContext/runAsUser", "null"), true);
    check_idle(Set("", &pod().to_string()), true);
}

#[test]
fn what_was_read_can_be_written_back_without_a_write() {
    for path in ["", "/metadata", "/spec/tomorrow"] {
        let read = unrestricted().get(path).unwrap().unwrap();
        check_idle(Set(path, &read), true);
    }
    check_idle(
        Set(
            "/spec/containers/1/env/0",
            r#"{"name":"TZ","value":"UTC","valueFrom":null}"#,
        ),
        true,
    );
    check(
        Set(
            "/spec/tomorrow",
            r#"{"flag":null,"list":[1,null,{"on":true,"kind":"x"}]}"#,
        ),
        "/spec/tomorrow/flag",
        &json!(null),
    );
}

#[test]
fn removing_a_missing_value_is_not_a_write() {
    for path in [
        "/spec/volumes",
        "/spec/volumes/[name=a]",
        "/spec/volumes/0/name",
        "/spec/containers/2",
        "/spec/containers/[name=other]/env",
        "/metadata/creationTimestamp",
        "/metadata/annotations/a",
        "/spec/tomorrow/list/1/x",
    ] {
        check_idle(Remove(path), false);
    }
}

#[test]
fn missing_elements_on_the_way_are_never_created() {
    let way = "an element on the way does not exist";
    for (path, reason) in [
        ("/spec/containers/[name=new]/image", way),
        ("/spec/containers/2/image", way),
        ("/spec/containers/-/image", way),
        ("/spec/volumes/[name=new]/emptyDir/medium", way),
        ("/spec/tomorrow/list/1/x", way),
        ("/spec/containers/2", "the list is shorter; append with `-`"),
        ("/spec/volumes/0", "the list is shorter; append with `-`"),
    ] {
        let text = format!("nothing is at {path}: {reason}");
        check_refused(unrestricted(), Set(path, "\"x\""), "not found", &text);
    }
    let before = "nothing is there to insert before; append with `set` and `-`";
    for (path, reason) in [
        ("/spec/containers/3", before),
        ("/spec/containers/[name=new]", before),
        ("/spec/volumes/0", before),
        ("/spec/containers/[name=new]/args/0", way),
    ] {
        let text = format!("nothing is at {path}: {reason}");
        check_refused(unrestricted(), Insert(path, "{}"), "not found", &text);
    }
}

#[test]
fn paths_that_an_operation_cannot_use_are_invalid() {
    let end = "`-` is the end of the list, where only `set` can append";
    let several = "\"[containerPort=80]\" matches 2 elements; name one by its index";
    let element = "it names no element of a list to insert before; use `set`";
    let ports = "/spec/containers/0/ports/[containerPort=80]";
    for (call, path, reason) in [
        (Remove(""), "", "the whole pod cannot be removed"),
        (Remove("/spec/containers/-"), "/spec/containers/-", end),
        (
            Insert("/spec/containers/-", "{}"),
            "/spec/containers/-",
            end,
        ),
        (Insert("/spec/volumes/-", "{}"), "/spec/volumes/-", end),
        (Insert("/spec/nodeName", "\"a\""), "/spec/nodeName", element),
        (Insert("", "{}"), "", element),
        (Set(ports, "{}"), ports, several),
        (Remove(ports), ports, several),
        (
            Set("/spec/nodeName/x", "1"),
            "/spec/nodeName/x",
            "before \"x\" it leads to a string, which has no fields",
        ),
        (
            Set("/spec/hostNetwork/x", "1"),
            "/spec/hostNetwork/x",
            "before \"x\" it leads to a boolean, which has no fields",
        ),
    ] {
        check_refused(
            unrestricted(),
            call,
            "invalid path",
            &format!("path {path:?} is invalid: {reason}"),
        );
    }
}

//! The results of `view`.

use super::{granted, kind, unrestricted};
use crate::{Access, Transaction};

#[track_caller]
fn check(path: &str, fields: &[&str], expected: Option<&str>) {
    let fields: Vec<String> = fields.iter().map(|&field| field.to_owned()).collect();
    let view = unrestricted().view(path, &fields).unwrap();
    assert_eq!(view.as_deref(), expected, "{path} {fields:?}");
}

#[test]
fn a_view_shows_just_the_fields() {
    check(
        "/spec",
        &["/containers/*/name", "/hostNetwork"],
        Some(r#"{"containers":[{"name":"browser"},{"name":"proxy"}],"hostNetwork":false}"#),
    );
    check(
        "/spec/containers",
        &[
            "/*/ports/*/protocol",
            "/*/ports/*/containerPort",
            "/*/image",
        ],
        Some(
            r#"[{"ports":[{"containerPort":80},{"protocol":"UDP","containerPort":80},{"containerPort":90}],"image":"chrome"},{"image":"envoy"}]"#,
        ),
    );
    check(
        "/metadata",
        &["/labels/example.com~1a~0b"],
        Some(r#"{"labels":{"example.com/a~b":"x"}}"#),
    );
    check(
        "/spec/containers/[name=proxy]",
        &["/env"],
        Some(r#"{"env":[{"name":"TZ","value":"UTC"},{"name":"ODD","value":"a]=b"}]}"#),
    );
}

#[test]
fn an_empty_field_shows_the_whole_value() {
    check("/spec/containers/0/args", &[""], Some(r#"["a","b"]"#));
    check(
        "/spec/containers/0",
        &["/args", "/args/*"],
        Some(r#"{"args":["a","b"]}"#),
    );
}

#[test]
fn elements_that_are_null_keep_their_index() {
    let pod = serde_json::json!({"spec": {"containers": [null, {"name": "a", "image": "x"}]}});
    let pod = Transaction::begin(pod, Access::unrestricted().into(), [].into());
    let view = pod.view("/spec/containers", &["/*/name".to_owned()]);
    assert_eq!(view.unwrap().as_deref(), Some(r#"[null,{"name":"a"}]"#));
}

#[test]
fn missing_values_are_left_out() {
    check("/spec", &["/volumes/*/name"], Some("{}"));
    check("/spec/volumes", &["/*/name"], None);
    check(
        "/metadata",
        &["/annotations", "/creationTimestamp"],
        Some("{}"),
    );
    check("/metadata/annotations", &["/x"], None);
    check(
        "/spec/containers",
        &["/*/env/*/valueFrom"],
        Some(r#"[{},{"env":[{},{}]}]"#),
    );
    check("/spec", &[], Some("{}"));
}

#[test]
fn keys_that_resemble_the_field_are_not_taken_for_it() {
    let pod = serde_json::json!({"limits": 1, "losers": 2, "a": {"": 3}, "": 4, "ümlaut": 5, "ümläut": 6});
    let pod = Transaction::begin(pod, Access::unrestricted().into(), [].into());
    let view = pod.view(
        "",
        &["/losers", "/lasers", "/limits", "/a/b", "/ümläut", "/"],
    );
    assert_eq!(
        view.unwrap().as_deref(),
        Some(r#"{"losers":2,"limits":1,"a":{},"ümläut":6,"":4}"#)
    );
}

#[test]
fn commas_are_only_between_shown_values() {
    let pod = serde_json::json!({"a": [], "b": [null], "c": [",", {}], "d": {}, "e": ","});
    let pod = Transaction::begin(pod, Access::unrestricted().into(), [].into());
    let view = pod.view("", &["/a/*/x", "/b/*/x", "/c", "/none", "/d/x", "/e"]);
    assert_eq!(
        view.unwrap().as_deref(),
        Some(r#"{"a":[],"b":[null],"c":[",",{}],"d":{},"e":","}"#)
    );
}

#[track_caller]
fn check_refused(reads: &[&str], path: &str, fields: &[&str], expected: &str, says: &str) {
    let fields: Vec<String> = fields.iter().map(|&field| field.to_owned()).collect();
    let outcome = granted(reads, &[]).view(path, &fields);
    assert_eq!(kind(&outcome), expected, "{path} {fields:?}: {outcome:?}");
    let error = outcome.unwrap_err().to_string();
    assert!(error.contains(says), "{error}");
}

#[test]
fn every_field_must_be_granted() {
    let reads = ["/spec/containers/*/name", "/metadata/labels"];
    let view = granted(&reads, &[]).view("", &["/spec/containers/*/name".to_owned()]);
    assert_eq!(
        view.unwrap().as_deref(),
        Some(r#"{"spec":{"containers":[{"name":"browser"},{"name":"proxy"}]}}"#)
    );
    for (path, field) in [
        ("/spec", "/containers/*/image"),
        ("/spec", "/containers"),
        ("", "/spec"),
        ("/spec", ""),
        ("/metadata", "/name"),
        // A refusal does not reveal whether the field exists.
        ("/spec", "/nodeName"),
        ("/spec/volumes", "/*/name"),
        ("/metadata", "/annotations"),
    ] {
        check_refused(&reads, path, &[field], "forbidden", "reading");
    }
}

#[test]
fn only_the_element_granted_by_its_key_is_shown() {
    let reads = ["/spec/containers/[name=proxy]"];
    check_refused(
        &reads,
        "/spec",
        &["/containers/*/image"],
        "forbidden",
        "[name=proxy]",
    );
    let proxy = "/spec/containers/[name=proxy]";
    let view = granted(&reads, &[]).view(proxy, &["/image".to_owned()]);
    assert_eq!(view.unwrap().as_deref(), Some(r#"{"image":"envoy"}"#));
}

#[test]
fn paths_that_may_be_written_may_be_viewed() {
    let view = granted(&[], &["/metadata/labels"]).view("/metadata", &["/labels/app".to_owned()]);
    assert_eq!(
        view.unwrap().as_deref(),
        Some(r#"{"labels":{"app":"web"}}"#)
    );
}

#[test]
fn invalid_fields_are_named() {
    let all = [""];
    check_refused(
        &all,
        "/spec",
        &["/containers/0/name"],
        "invalid path",
        "`*`",
    );
    check_refused(
        &all,
        "/spec",
        &["/containers/[name=a]/x"],
        "invalid path",
        "`*`",
    );
    check_refused(
        &all,
        "/spec",
        &["/hostNetwork/x"],
        "invalid path",
        "which has no fields",
    );
    check_refused(
        &all,
        "/spec",
        &["containers"],
        "invalid path",
        "start with `/`",
    );
    check_refused(&all, "/spec", &["/a~2"], "invalid path", "`~`");
    check_refused(&all, "/spec", &vec!["/x"; 300], "invalid path", "256");
    check_refused(&all, "/spec", &[&"/x".repeat(600)], "limit", "");
}

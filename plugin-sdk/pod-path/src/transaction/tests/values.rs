//! Which values may be written where.

use super::{Insert, Set, check_refused, make, unrestricted};

#[track_caller]
fn check_misfit(path: &str, value: &str, place: &str, reason: &str) {
    let text = format!("invalid value at {place}: {reason}");
    check_refused(unrestricted(), Set(path, value), "invalid value", &text);
}

/// Path, value, the wrong part of the value, and the reason.
const MISFITS: &[(&str, &str, &str, &str)] = &[
    (
        "/spec/hostNetwork",
        "\"yes\"",
        "",
        "expected a boolean, found a string",
    ),
    (
        "/spec/nodeName",
        "1",
        "",
        "expected a string, found a number",
    ),
    (
        "/metadata/labels/a",
        "true",
        "",
        "expected a string, found a boolean",
    ),
    (
        "/metadata/labels/a",
        "null",
        "",
        "expected a string, found null",
    ),
    (
        "/metadata/labels",
        r#"{"a/b":1}"#,
        "/a~1b",
        "expected a string, found a number",
    ),
    (
        "/metadata/labels",
        r#"{"a":null}"#,
        "/a",
        "expected a string, found null",
    ),
    (
        "/spec/containers",
        "{}",
        "",
        "expected a list, found an object",
    ),
    (
        "/spec/containers/-",
        "null",
        "",
        "expected an object (Container), found null",
    ),
    (
        "/spec/containers/0",
        "[]",
        "",
        "expected an object (Container), found a list",
    ),
    (
        "/spec/containers/0/args/-",
        "null",
        "",
        "expected a string, found null",
    ),
    (
        "/spec/containers/0/ports/-",
        r#"{"containerPort":"80"}"#,
        "/containerPort",
        "expected a 32-bit integer, found a string",
    ),
    (
        "/spec/containers/0/ports/-",
        r#"{"containerPort":80.0}"#,
        "/containerPort",
        "expected a 32-bit integer, found a number",
    ),
    (
        "/spec/containers/0/ports/-",
        r#"{"containerPort":3000000000}"#,
        "/containerPort",
        "expected a 32-bit integer, found a number",
    ),
    (
        "/spec/securityContext/runAsUser",
        "1e300",
        "",
        "expected a 64-bit integer, found a number",
    ),
    (
        "/spec/containers/0/resources",
        r#"{"limits":{"cpu":[]}}"#,
        "/limits/cpu",
        "expected a quantity (a string or a number), found a list",
    ),
    (
        "/spec/containers/0/livenessProbe/httpGet/port",
        "true",
        "",
        "expected a 32-bit integer or a string, found a boolean",
    ),
    (
        "/metadata/deletionTimestamp",
        "1",
        "",
        "expected a time (a string, as in RFC 3339), found a number",
    ),
    (
        "/spec/volumes",
        r#"[{"name":"a"},{"projected":{"sources":[{"secret":[]}]}}]"#,
        "/1/projected/sources/0/secret",
        "expected an object (SecretProjection), found a list",
    ),
    (
        "/spec/tomorrow/list/-",
        "null",
        "",
        "expected a value that is not null, found null",
    ),
    ("", "null", "", "expected an object (Pod), found null"),
    ("", "[]", "", "expected an object (Pod), found a list"),
];

#[test]
fn a_wrong_type_is_refused_with_its_path() {
    for (path, value, place, reason) in MISFITS {
        let place = format!("{path}{place}");
        check_misfit(
            path,
            value,
            if place.is_empty() {
                "the whole pod"
            } else {
                &place
            },
            reason,
        );
    }
    check_refused(
        unrestricted(),
        Insert("/spec/containers/0/args/0", "1"),
        "invalid value",
        "invalid value at /spec/containers/0/args/0: expected a string, found a number",
    );
}

#[test]
fn text_that_is_not_json_is_refused() {
    check_misfit(
        "/spec/nodeName",
        "node",
        "/spec/nodeName",
        "it is not JSON: expected ident at line 1 column 2",
    );
    check_misfit(
        "/spec/nodeName",
        "",
        "/spec/nodeName",
        "it is not JSON: EOF while parsing a value at line 1 column 0",
    );
    check_misfit(
        "/spec/nodeName",
        "\"a\" 1",
        "/spec/nodeName",
        "it is not JSON: trailing characters at line 1 column 5",
    );
}

#[test]
fn the_key_in_the_path_must_match() {
    let path = "/spec/containers/[name=new]";
    check_misfit(
        path,
        "[]",
        path,
        "an element that is named by its name must be an object, found a list",
    );
    let conflict =
        "its field name differs from \"new\" in the path; omit the field, or make both equal";
    check_misfit(path, r#"{"name":"old"}"#, path, conflict);
    let path = "/spec/containers/[name=proxy]";
    let conflict =
        "its field name differs from \"proxy\" in the path; omit the field, or make both equal";
    check_misfit(path, r#"{"name":"old"}"#, path, conflict);
    let path = "/spec/containers/0/ports/[containerPort=http]";
    check_misfit(
        path,
        "{}",
        path,
        "the path has \"http\" for its field containerPort, expected a 32-bit integer",
    );
    let path = "/spec/containers/0/ports/[containerPort=070]";
    check_misfit(
        path,
        "{}",
        path,
        "the path has \"070\" for its field containerPort, expected a 32-bit integer",
    );
}

#[track_caller]
fn check_fits(path: &str, value: &str) {
    assert_eq!(
        make(&mut unrestricted(), Set(path, value)),
        Ok(true),
        "{path}"
    );
}

#[test]
fn values_that_the_api_server_accepts_may_be_written() {
    check_fits("/spec/containers/0/resources/limits/cpu", "2");
    check_fits("/spec/containers/0/resources/limits/cpu", "0.5");
    check_fits("/spec/containers/0/resources/limits/cpu", "\"500m\"");
    check_fits("/spec/containers/0/livenessProbe/httpGet/port", "8080");
    check_fits("/spec/containers/0/livenessProbe/httpGet/port", "\"http\"");
    check_fits(
        "/spec/containers/-",
        r#"{"name":"x","env":null,"lifecycle":{"preStop":null}}"#,
    );
    check_fits("/spec/securityContext", "null");
    check_fits("/spec/securityContext/runAsUser", "9223372036854775807");
}

#[test]
fn unknown_fields_pass() {
    check_fits("/spec/new", r#"{"a":[1,null]}"#);
    check_fits("/spec/containers/-", r#"{"name":"x","new":{"a":null}}"#);
    check_fits("/spec/tomorrow/list/-", "[null]");
}

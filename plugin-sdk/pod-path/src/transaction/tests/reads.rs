//! The results of `get` and `keys`.

use super::{granted, kind, unrestricted};

#[track_caller]
fn check_get(path: &str, expected: Option<&str>) {
    assert_eq!(
        unrestricted().get(path).unwrap().as_deref(),
        expected,
        "{path}"
    );
}

#[test]
fn get_gives_json_text() {
    check_get("/metadata/name", Some("\"web\""));
    check_get("/metadata/labels/example.com~1a~0b", Some("\"x\""));
    check_get("/spec/hostNetwork", Some("false"));
    check_get("/spec/containers/0/args", Some(r#"["a","b"]"#));
    check_get(
        "/spec/containers/1/env/0",
        Some(r#"{"name":"TZ","value":"UTC"}"#),
    );
    check_get("/spec/tomorrow/list/1", Some("null"));
    check_get("/status", Some("{}"));
    assert!(
        unrestricted()
            .get("")
            .unwrap()
            .unwrap()
            .starts_with(r#"{"apiVersion":"v1""#)
    );
}

#[test]
fn selectors_name_one_element() {
    check_get("/spec/containers/[name=proxy]/image", Some("\"envoy\""));
    check_get("/spec/containers/[image=envoy]/name", Some("\"proxy\""));
    check_get(
        "/spec/containers/[name=proxy]/env/[value=a]=b]/name",
        Some("\"ODD\""),
    );
    check_get(
        "/spec/containers/0/volumeMounts/[mountPath=~1data]/name",
        Some("\"data\""),
    );
    check_get(
        "/spec/containers/0/ports/[containerPort=90]",
        Some(r#"{"containerPort":90}"#),
    );
    check_get("/spec/containers/0/ports/[containerPort=090]", None);
    check_get("/spec/tomorrow/list/[on=true]/kind", Some("\"x\""));
    check_get("/spec/tomorrow/list/[on=false]", None);
}

#[test]
fn nothing_is_there() {
    check_get("/metadata/uid", None);
    check_get("/metadata/labels/other", None);
    check_get("/metadata/creationTimestamp", None);
    check_get("/metadata/annotations", None);
    check_get("/metadata/annotations/a", None);
    check_get("/spec/volumes/0/name", None);
    check_get("/spec/volumes/[name=a]/emptyDir", None);
    check_get("/spec/containers/2", None);
    check_get("/spec/containers/99999999999999999999999999", None);
    check_get("/spec/containers/[name=other]/env/[name=TZ]", None);
    check_get("/spec/tomorrow/list/1/below", None);
    check_get("/spec/dayAfterTomorrow/0/a/[b=c]", None);
}

#[test]
fn null_fields_are_not_shown() {
    let labels = r#"{"app":"web","example.com/a~b":"x","selenosis.io/browser":"chrome"}"#;
    let metadata = format!(r#"{{"labels":{labels},"name":"web"}}"#);
    check_get("/metadata", Some(&metadata));
    check_keys("/metadata", &["labels", "name"]);
    // Elements of lists keep their positions.
    check_get(
        "/spec/tomorrow",
        Some(r#"{"flag":true,"list":[1,null,{"kind":"x","on":true}]}"#),
    );
    check_keys("/spec/tomorrow/list", &["0", "1", "2"]);
    let view = unrestricted().view("", &["/metadata"]).unwrap();
    assert_eq!(view, Some(format!(r#"{{"metadata":{metadata}}}"#)));
}

#[track_caller]
fn check_invalid(path: &str, reason: &str) {
    for outcome in [
        unrestricted().get(path).map(drop),
        unrestricted().keys(path).map(drop),
    ] {
        assert_eq!(kind(&outcome), "invalid path", "{path}");
        assert_eq!(
            outcome.unwrap_err().to_string(),
            format!("path {path:?} is invalid: {reason}")
        );
    }
}

#[test]
fn malformed_paths_are_invalid() {
    check_invalid("spec", "it must be empty or start with `/`");
    for path in [
        "/metadata/labels/~",
        "/metadata/labels/a~2",
        "/spec/containers/[name=~x]",
    ] {
        check_invalid(
            path,
            "`~` must be written `~0`, and `/` inside a segment `~1`",
        );
    }
    for segment in [
        "browser",
        "+1",
        "-1",
        "01",
        "",
        "[name]",
        "[=a]",
        "[name=a]b",
        "[name=a",
        "*",
    ] {
        check_invalid(
            &format!("/spec/containers/{segment}"),
            &format!(
                "{segment:?} is on a list; name an element as `[name=value]` or by its index, such as `0`"
            ),
        );
    }
    check_invalid(
        "/spec/containers/-",
        "`-` is the end of the list, where only `set` can append",
    );
    check_invalid(
        "/spec/volumes/tmp",
        "\"tmp\" is on a list; name an element as `[name=value]` or by its index, such as `0`",
    );
}

#[test]
fn a_scalar_has_no_fields() {
    check_invalid(
        "/metadata/name/x",
        "before \"x\" it leads to a string, which has no fields",
    );
    check_invalid(
        "/spec/nodeName/x",
        "before \"x\" it leads to a string, which has no fields",
    );
    check_invalid(
        "/spec/tomorrow/list/0/x/y",
        "before \"x\" it leads to a number, which has no fields",
    );
}

#[test]
fn a_slash_that_belongs_to_a_key_or_a_value_is_told() {
    for (path, meant) in [
        (
            "/metadata/labels/example.com/team",
            "/metadata/labels/example.com~1team",
        ),
        (
            "/spec/nodeSelector/kubernetes.io/os",
            "/spec/nodeSelector/kubernetes.io~1os",
        ),
        (
            "/spec/containers/0/volumeMounts/[mountPath=/etc/mesh]",
            "/spec/containers/0/volumeMounts/[mountPath=~1etc~1mesh]",
        ),
    ] {
        let error = unrestricted().get(path).unwrap_err().to_string();
        let advice = format!("; a `/` in a key or value is written `~1`: write {meant}");
        assert!(error.ends_with(&advice), "{error}");
    }
}

#[test]
fn a_selector_that_matches_several_is_invalid() {
    check_invalid(
        "/spec/containers/0/ports/[containerPort=80]",
        "\"[containerPort=80]\" matches 2 elements; name one by its index",
    );
}

#[track_caller]
fn check_keys(path: &str, expected: &[&str]) {
    assert_eq!(unrestricted().keys(path).unwrap(), expected, "{path}");
}

#[test]
fn keys_lists_fields_and_positions() {
    check_keys("", &["apiVersion", "kind", "metadata", "spec", "status"]);
    check_keys(
        "/metadata/labels",
        &["app", "example.com/a~b", "selenosis.io/browser"],
    );
    check_keys("/spec/containers", &["0", "1"]);
    check_keys(
        "/spec/containers/[name=proxy]/env/[name=TZ]",
        &["name", "value"],
    );
    check_keys("/metadata/annotations", &[]);
    check_keys("/spec/volumes", &[]);
    check_keys("/spec/volumes/0", &[]);
    check_keys("/spec/tomorrow/list/1", &[]);
}

#[test]
fn a_scalar_has_no_keys() {
    let error = unrestricted().keys("/metadata/name").unwrap_err();
    assert_eq!(
        error.to_string(),
        "path \"/metadata/name\" is invalid: it leads to a string, which has no keys; use `get`"
    );
}

#[track_caller]
fn check_readable(reads: &[&str], writes: &[&str], path: &str, expected: &str) {
    let transaction = granted(reads, writes);
    assert_eq!(kind(&transaction.get(path)), expected, "get {path}");
    let keys = transaction.keys(path);
    assert_eq!(
        kind(&keys) == "forbidden",
        expected == "forbidden",
        "keys {path}"
    );
    assert_eq!(transaction.refused_writes(), 0);
}

#[test]
fn paths_without_a_grant_cannot_be_read() {
    let labels = ["/metadata/labels"];
    check_readable(&labels, &[], "/metadata/labels", "fine");
    check_readable(&labels, &[], "/metadata/labels/app", "fine");
    check_readable(&labels, &[], "/metadata/labels/absent", "fine");
    check_readable(&labels, &[], "/metadata", "forbidden");
    check_readable(&labels, &[], "", "forbidden");
    check_readable(&labels, &[], "/metadata/uid", "forbidden");
    check_readable(&labels, &[], "/spec", "forbidden");
    check_readable(&[], &labels, "/metadata/labels/app", "fine");
    check_readable(&[""], &[], "/status", "fine");
    check_readable(&[], &[], "/spec", "forbidden");
}

#[test]
fn elements_are_read_as_granted_whichever_field_names_them() {
    let proxy = ["/spec/containers/[name=proxy]"];
    for path in ["[name=proxy]", "[image=envoy]", "[image=envoy]/env/0"] {
        check_readable(&proxy, &[], &format!("/spec/containers/{path}"), "fine");
    }
    for path in [
        // Its index would reveal how many containers there are.
        "1",
        "1/name",
        "0",
        "2",
        "[name=browser]",
        "[image=chrome]",
        "[name=absent]",
        "[image=absent]",
    ] {
        check_readable(
            &proxy,
            &[],
            &format!("/spec/containers/{path}"),
            "forbidden",
        );
    }
    check_readable(&proxy, &[], "/spec/containers", "forbidden");
    check_readable(
        &["/spec/containers/[name=absent]"],
        &[],
        "/spec/containers/[name=absent]/env",
        "fine",
    );
    let images = ["/spec/containers/*/image"];
    for path in [
        "0/image",
        "[name=proxy]/image",
        "7/image",
        "[name=absent]/image",
    ] {
        check_readable(&images, &[], &format!("/spec/containers/{path}"), "fine");
    }
    check_readable(&images, &[], "/spec/containers/0/name", "forbidden");
    check_readable(
        &["/spec/volumes/[name=a]"],
        &[],
        "/spec/volumes/[name=a]/emptyDir",
        "fine",
    );
    check_readable(
        &["/spec/volumes/[name=a]"],
        &[],
        "/spec/volumes/0",
        "forbidden",
    );
}

#[test]
fn the_refusal_says_what_is_granted_and_what_to_do() {
    let error = granted(&["/metadata/labels"], &["/spec/volumes"])
        .get("/spec/nodeName")
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "reading /spec/nodeName is forbidden: the plugin may read /metadata/labels and write /spec/volumes; \
         add the line `- \"/spec/nodeName\"` to `read` in chain.yaml, and `.read(...)` with the path in the plugin's `needs`"
    );
}

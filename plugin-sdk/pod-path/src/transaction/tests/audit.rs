//! The writes that a commit returns.

use serde_json::{Value, json};

use super::{Call, Insert, Remove, Set, make, unrestricted};

#[track_caller]
fn check(call: Call<'_>, path: &str, old: Option<Value>, new: Option<&str>) {
    let mut transaction = unrestricted();
    make(&mut transaction, call).unwrap();
    let (_, writes) = transaction.commit();
    let [write] = &writes[..] else {
        panic!("{call:?}: {writes:?}")
    };
    let listed = (write.path.clone(), write.old.clone(), write.new.as_deref());
    assert_eq!(listed, (path.to_owned(), old, new), "{call:?}");
}

#[test]
fn a_write_has_old_and_new_value() {
    check(
        Set("/spec/hostNetwork", " true"),
        "/spec/hostNetwork",
        Some(json!(false)),
        Some("true"),
    );
    check(
        Set("/metadata/annotations/a", "\"b\""),
        "/metadata/annotations/a",
        None,
        Some("\"b\""),
    );
    check(
        Set("/metadata/creationTimestamp", "\"t\""),
        "/metadata/creationTimestamp",
        None,
        Some("\"t\""),
    );
    check(
        Remove("/spec/hostNetwork"),
        "/spec/hostNetwork",
        Some(json!(false)),
        None,
    );
    check(
        Remove("/spec/containers/0/args/0"),
        "/spec/containers/[name=browser]/args/0",
        Some(json!("a")),
        None,
    );
}

#[test]
fn elements_are_named_by_their_merge_key() {
    let x = Some("\"x\"");
    check(
        Set("/spec/containers/1/image", "\"x\""),
        "/spec/containers/[name=proxy]/image",
        Some(json!("envoy")),
        x,
    );
    check(
        Set("/spec/containers/[image=envoy]/image", "\"x\""),
        "/spec/containers/[name=proxy]/image",
        Some(json!("envoy")),
        x,
    );
    check(
        Set("/spec/containers/0/volumeMounts/0/subPath", "\"x\""),
        "/spec/containers/[name=browser]/volumeMounts/[mountPath=~1data]/subPath",
        None,
        x,
    );
    check(
        Set("/spec/containers/0/ports/2/name", "\"x\""),
        "/spec/containers/[name=browser]/ports/[containerPort=90]/name",
        None,
        x,
    );
}

#[test]
fn an_index_is_used_if_the_key_is_missing_or_not_unique() {
    let x = Some("\"x\"");
    check(
        Set("/spec/containers/0/ports/1/name", "\"x\""),
        "/spec/containers/[name=browser]/ports/1/name",
        None,
        x,
    );
    check(
        Set("/spec/tomorrow/list/2/kind", "\"y\""),
        "/spec/tomorrow/list/2/kind",
        Some(json!("x")),
        Some("\"y\""),
    );
    check(
        Set("/spec/tomorrow/list/[on=true]/new", "\"x\""),
        "/spec/tomorrow/list/2/new",
        None,
        x,
    );
    check(
        Set("/spec/containers/-", "{}"),
        "/spec/containers/2",
        None,
        Some("{}"),
    );
    let proxy = r#"{"name":"proxy"}"#;
    check(
        Set("/spec/containers/-", proxy),
        "/spec/containers/2",
        None,
        Some(proxy),
    );
    let long = format!("{{\"name\":\"{}\"}}", "x".repeat(300));
    check(
        Set("/spec/containers/1/env/-", &long),
        "/spec/containers/[name=proxy]/env/2",
        None,
        Some(&long),
    );
}

#[test]
fn new_elements_are_named_by_their_key() {
    let new = r#"{"name":"a/b"}"#;
    check(
        Set("/spec/imagePullSecrets/-", new),
        "/spec/imagePullSecrets/[name=a~1b]",
        None,
        Some(new),
    );
    check(
        Insert("/spec/containers/1/env/0", new),
        "/spec/containers/[name=proxy]/env/[name=a~1b]",
        None,
        Some(new),
    );
    check(
        Set("/spec/volumes/[name=a]", "{}"),
        "/spec/volumes/[name=a]",
        None,
        Some(r#"{"name":"a"}"#),
    );
    check(
        Set(
            "/spec/containers/0/ports/[name=x]",
            r#"{"containerPort":1}"#,
        ),
        "/spec/containers/[name=browser]/ports/[containerPort=1]",
        None,
        Some(r#"{"containerPort":1,"name":"x"}"#),
    );
}

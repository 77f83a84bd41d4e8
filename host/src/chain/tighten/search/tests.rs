//! Which narrower paths stand for a wide one.

use super::{distinct, is_above, narrow};

#[track_caller]
fn check(grant: &str, used: &[&str], expected: &[&str]) {
    assert_eq!(narrow(grant, used.iter().copied()), expected);
}

#[test]
fn a_map_is_narrowed_to_the_keys_that_were_used() {
    let labels = "/metadata/labels";
    let (a, b) = ("/metadata/labels/a", "/metadata/labels/b~1c");
    check(labels, &[a], &[a]);
    check(labels, &[b, a], &[a, b]);
    check(labels, &[a, labels], &[labels]);
    let many = ["a", "b", "c", "d", "e", "f"].map(|key| format!("{labels}/{key}"));
    check(labels, &many.each_ref().map(String::as_str), &[labels]);
}

#[test]
fn any_element_is_narrowed_to_the_elements_that_were_used() {
    let any = "/spec/containers/*/env";
    let proxy = "/spec/containers/[name=proxy]/env";
    check(any, &["/spec/containers/[name=proxy]/env"], &[proxy]);
    check(
        any,
        &["/spec/containers/[name=proxy]/env/[name=A]"],
        &["/spec/containers/[name=proxy]/env/[name=A]"],
    );
    check(any, &["/spec/containers/*/env"], &[any]);
    check(any, &[proxy, "/spec/containers/*/env"], &[any]);
    let many =
        ["a", "b", "c", "d", "e", "f"].map(|name| format!("/spec/containers/[name={name}]/env"));
    check(any, &many.each_ref().map(String::as_str), &[any]);
}

/// The elements of an application have any names, so the fields below them are those of all.
#[test]
fn with_many_elements_their_fields_are_narrowed() {
    let many =
        ["a", "b", "c", "d", "e", "f"].map(|name| format!("/spec/containers/[name={name}]/image"));
    check(
        "/spec",
        &many.each_ref().map(String::as_str),
        &["/spec/containers/*/image"],
    );
}

#[test]
fn fields_are_narrowed_at_any_depth() {
    check(
        "/spec",
        &["/spec/securityContext/runAsUser", "/spec/nodeName"],
        &["/spec/nodeName", "/spec/securityContext/runAsUser"],
    );
    check("", &["/spec/nodeName"], &["/spec/nodeName"]);
}

#[test]
fn what_is_seen_through_a_grant_keeps_it() {
    check(
        "/spec/containers/*/image",
        &["/spec/containers"],
        &["/spec/containers/*/image"],
    );
    assert!(is_above("/spec/containers", "/spec/containers/*/image"));
    assert!(is_above("/spec/containers/*", "/spec/containers/*/image"));
    assert!(!is_above(
        "/spec/containers/*/image",
        "/spec/containers/*/image"
    ));
    assert!(!is_above("/metadata", "/spec"));
}

#[test]
fn paths_that_others_cover_are_left_out() {
    let of = |paths: &[&str]| {
        distinct(
            &paths
                .iter()
                .map(|path| (*path).to_owned())
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(of(&["/spec/nodeName", "/spec", "/spec"]), ["/spec"]);
    assert_eq!(of(&["/a", "/b", "/a"]), ["/a", "/b"]);
}

//! What grants let a plugin write.

use super::{Call, Insert, Remove, Set, check_refused, granted, kind, make};

#[track_caller]
fn check(grants: &[&str], call: Call<'_>, expected: &str) {
    let mut transaction = granted(&[""], grants);
    let outcome = make(&mut transaction, call);
    assert_eq!(
        kind(&outcome),
        expected,
        "{call:?} under {grants:?}: {outcome:?}"
    );
    assert_eq!(
        transaction.refused_writes(),
        usize::from(expected == "forbidden")
    );
}

const PROXY: &[&str] = &["/spec/containers/[name=proxy]"];
const NEW: &[&str] = &["/spec/containers/[name=new]"];

#[test]
fn a_prefix_grants_what_lies_below() {
    check(
        &["/metadata/labels"],
        Set("/metadata/labels/x", "\"y\""),
        "fine",
    );
    check(
        &["/metadata/labels"],
        Set("/metadata/annotations/x", "\"y\""),
        "forbidden",
    );
    check(
        &["/metadata/labels"],
        Set("/metadata/labelsx", "\"y\""),
        "forbidden",
    );
    check(&["/spec/containers"], Remove("/spec/containers"), "fine");
    check(&[], Set("/spec/nodeName", "\"y\""), "forbidden");
    check(
        &["/metadata/annotations/a~1b"],
        Set("/metadata/annotations/a~1b", "\"y\""),
        "fine",
    );
    check(
        &["/metadata/annotations/a~1b"],
        Set("/metadata/annotations/a~1c", "\"y\""),
        "forbidden",
    );
}

#[test]
fn an_ancestor_of_a_grant_is_not_granted() {
    let env = &["/spec/containers/*/env"];
    check(env, Set("/spec/containers/0/env", "[]"), "fine");
    check(
        env,
        Set("/spec/containers/0", r#"{"name":"x"}"#),
        "forbidden",
    );
    check(env, Set("/spec/containers", "[]"), "forbidden");
    check(env, Set("/spec", "{}"), "forbidden");
    check(env, Remove("/spec/containers/0"), "forbidden");
    check(env, Remove("/spec"), "forbidden");
    check(env, Set("/spec/containers/-", "{}"), "forbidden");
    check(env, Insert("/spec/containers/0", "{}"), "forbidden");
    check(env, Set("/spec/containers/[name=x]", "{}"), "forbidden");
}

#[test]
fn missing_empty_parents_may_be_made() {
    let seccomp = &[
        "/spec/securityContext/seccompProfile/type",
        "/metadata/annotations/a",
        "/spec/volumes/*",
    ];
    check(
        seccomp,
        Set("/spec/securityContext/seccompProfile/type", "\"x\""),
        "fine",
    );
    check(seccomp, Set("/spec/securityContext", "{}"), "fine");
    check(
        seccomp,
        Set("/spec/securityContext/seccompProfile", "{}"),
        "fine",
    );
    check(
        seccomp,
        Set("/spec/securityContext", r#"{"runAsUser":1}"#),
        "forbidden",
    );
    check(seccomp, Set("/spec/securityContext", "null"), "forbidden");
    check(seccomp, Set("/metadata/annotations", "{}"), "fine");
    check(seccomp, Set("/spec/volumes", "[]"), "fine");
    check(seccomp, Set("/spec/volumes/-", "{}"), "fine");
    check(seccomp, Set("/spec", "{}"), "forbidden");
    check(
        &["/metadata/labels/x"],
        Set("/metadata/labels", "{}"),
        "forbidden",
    );
    check(
        &["/spec/volumes/[name=a]/emptyDir"],
        Set("/spec/volumes/[name=a]", "{}"),
        "forbidden",
    );
    check(
        &["/spec/volumes/[name=a]/emptyDir"],
        Set("/spec/volumes", "[]"),
        "fine",
    );
}

#[test]
fn an_element_is_granted_in_whatever_form_it_is_named() {
    for element in ["1", "[name=proxy]", "[image=envoy]"] {
        let path = format!("/spec/containers/{element}");
        check(PROXY, Set(&format!("{path}/image"), "\"x\""), "fine");
        check(
            PROXY,
            Set(&path, r#"{"name":"proxy","image":"envoy"}"#),
            "fine",
        );
        check(PROXY, Set(&format!("{path}/env/[name=X]"), "{}"), "fine");
        check(PROXY, Insert(&format!("{path}/env/0"), "{}"), "fine");
        check(PROXY, Remove(&path), "fine");
    }
    for element in ["0", "[name=browser]", "[image=chrome]"] {
        let path = format!("/spec/containers/{element}");
        check(PROXY, Set(&format!("{path}/image"), "\"x\""), "forbidden");
        check(PROXY, Set(&path, r#"{"image":"chrome"}"#), "forbidden");
        check(PROXY, Remove(&path), "forbidden");
        check(PROXY, Remove(&format!("{path}/image")), "forbidden");
    }
    check(PROXY, Set("/spec/containers", "[]"), "forbidden");
    check(PROXY, Remove("/spec/containers/7"), "forbidden");
    check(PROXY, Remove("/spec/containers/[name=absent]"), "forbidden");
    check(NEW, Remove("/spec/containers/[name=new]"), "fine");
}

#[test]
fn an_element_granted_by_its_key_keeps_it() {
    for element in ["1", "[name=proxy]", "[image=envoy]"] {
        let path = format!("/spec/containers/{element}");
        let name = format!("{path}/name");
        check(PROXY, Set(&name, "\"x\""), "forbidden");
        check(PROXY, Set(&name, "null"), "forbidden");
        check(PROXY, Set(&name, "\"proxy\""), "fine");
        check(PROXY, Remove(&name), "forbidden");
    }
    check(
        PROXY,
        Set("/spec/containers/1", r#"{"name":"x","image":"envoy"}"#),
        "forbidden",
    );
    check(
        PROXY,
        Set("/spec/containers/1", r#"{"image":"envoy"}"#),
        "forbidden",
    );
    check(
        PROXY,
        Set("/spec/containers/[image=envoy]", r#"{"name":"x"}"#),
        "forbidden",
    );
    let ports = &["/spec/containers/*/ports/[containerPort=90]"];
    check(
        ports,
        Set("/spec/containers/0/ports/2/containerPort", "91"),
        "forbidden",
    );
    check(
        ports,
        Set("/spec/containers/0/ports/2/protocol", "\"TCP\""),
        "fine",
    );
}

#[test]
fn another_grant_may_let_the_key_change() {
    let name = Set("/spec/containers/1/name", "\"x\"");
    let replace = Set("/spec/containers/1", r#"{"name":"x"}"#);
    check(
        &["/spec/containers/[name=proxy]", "/spec/containers/*/name"],
        name,
        "fine",
    );
    check(
        &["/spec/containers/[name=proxy]", "/spec/containers/*/name"],
        replace,
        "forbidden",
    );
    check(
        &["/spec/containers/[name=proxy]", "/spec/containers/*"],
        replace,
        "fine",
    );
    check(
        &[
            "/spec/containers/[name=proxy]",
            "/spec/containers/[image=envoy]",
        ],
        name,
        "fine",
    );
    check(
        &[
            "/spec/containers/[name=proxy]",
            "/spec/containers/[image=envoy]",
        ],
        Remove("/spec/containers/1/name"),
        "fine",
    );
    check(
        &["/spec/containers/[name=proxy]", "/spec/containers/*/env"],
        name,
        "forbidden",
    );
}

#[test]
fn an_element_granted_by_its_key_may_be_made_once() {
    for call in [
        Set("/spec/containers/[name=new]", r#"{"image":"x"}"#),
        Set("/spec/containers/-", r#"{"name":"new"}"#),
        Set("/spec/containers/[image=x]", r#"{"name":"new"}"#),
        Insert("/spec/containers/0", r#"{"name":"new"}"#),
        Insert("/spec/containers/2", r#"{"name":"new"}"#),
        Insert("/spec/containers/[name=proxy]", r#"{"name":"new"}"#),
    ] {
        check(NEW, call, "fine");
    }
    for call in [
        Set("/spec/containers/-", r#"{"name":"other"}"#),
        Set("/spec/containers/-", "{}"),
        Set("/spec/containers/[name=other]", "{}"),
        Set("/spec/containers/[image=new]", "{}"),
        Insert("/spec/containers/0", r#"{"name":"other"}"#),
    ] {
        check(NEW, call, "forbidden");
    }
    for call in [
        Set("/spec/containers/-", r#"{"name":"proxy"}"#),
        Set("/spec/containers/[image=x]", r#"{"name":"proxy"}"#),
        Insert("/spec/containers/0", r#"{"name":"proxy"}"#),
    ] {
        check(PROXY, call, "forbidden");
    }
    check(
        &["/spec/volumes/[name=a]"],
        Set("/spec/volumes/[name=a]", "{}"),
        "fine",
    );
    check(
        &["/spec/volumes/[name=a]"],
        Set("/spec/volumes/[name=b]", "{}"),
        "forbidden",
    );
}

#[test]
fn any_element_may_be_made_under_a_star() {
    let any = &["/spec/containers/*"];
    check(any, Set("/spec/containers/-", "{}"), "fine");
    check(any, Set("/spec/containers/[name=x]", "{}"), "fine");
    check(any, Insert("/spec/containers/0", "{}"), "fine");
    check(any, Set("/spec/containers/0/name", "\"x\""), "fine");
    check(any, Remove("/spec/containers/0"), "fine");
    check(any, Remove("/spec/containers"), "forbidden");
}

#[test]
fn only_a_grant_reveals_that_an_element_is_missing() {
    check(PROXY, Set("/spec/containers/7", "{}"), "forbidden");
    check(
        PROXY,
        Set("/spec/containers/[name=x]/image", "\"x\""),
        "forbidden",
    );
    check(
        NEW,
        Set("/spec/containers/[name=new]/image", "\"x\""),
        "not found",
    );
    check(
        &["/spec/containers/*"],
        Set("/spec/containers/7", "{}"),
        "not found",
    );
    check(
        &["/spec/containers/*/image"],
        Set("/spec/containers/[name=x]/image", "\"x\""),
        "not found",
    );
}

#[test]
fn the_refusal_says_what_is_granted_and_what_to_do() {
    let grants: &[&str] = &["/spec/containers/[name=proxy]", "/metadata/labels"];
    for (call, text) in [
        (
            Set("/spec/hostNetwork", "true"),
            "writing /spec/hostNetwork is forbidden: the plugin may write /spec/containers/[name=proxy], /metadata/labels; add the line `- \"/spec/hostNetwork\"` to `allow` in chain.yaml, and `.write(...)` with the path in the plugin's `needs`",
        ),
        (
            Remove("/spec/containers"),
            "writing /spec/containers is forbidden: the plugin may write only parts of it, of /spec/containers/[name=proxy], /metadata/labels; write these parts one by one, or add the line `- \"/spec/containers\"` to `allow` in chain.yaml",
        ),
        (
            Remove("/spec/containers/[name=proxy]/name"),
            "writing /spec/containers/[name=proxy]/name is forbidden: the grant is for [name=proxy], so the field name must not change (the plugin may write /spec/containers/[name=proxy], /metadata/labels); to grant that, add the line `- \"/spec/containers/*/name\"` to `allow` in chain.yaml",
        ),
    ] {
        check_refused(granted(&[], grants), call, "forbidden", text);
    }
    check_refused(
        granted(&[], &[]),
        Remove("/spec"),
        "forbidden",
        "writing /spec is forbidden: the plugin may write nothing; add the line `- \"/spec\"` to `allow` in chain.yaml, and `.write(...)` with the path in the plugin's `needs`",
    );
}

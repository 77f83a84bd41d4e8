//! What is recorded of the accesses of a plugin.

use serde_json::{Value, json};

use crate::{Access, Grants, Transaction};

fn pod() -> Value {
    json!({
        "metadata": { "labels": { "app": "web" } },
        "spec": {
            "containers": [{ "name": "app", "env": [{ "name": "A" }] }, { "name": "proxy" }],
            "tolerations": [{ "key": "a" }],
        },
    })
}

#[track_caller]
fn check(reads: &[&str], writes: &[&str], act: impl Fn(&mut Transaction), expected: [&[&str]; 2]) {
    let access = Access::new(
        Grants::parse(reads).unwrap(),
        Grants::parse_writes(writes).unwrap(),
    );
    let mut pod = Transaction::begin(pod(), access.into(), [].into()).recording();
    act(&mut pod);
    let usage = pod.usage().unwrap();
    let keys = [&usage.reads, &usage.writes].map(|it| it.keys().collect::<Vec<_>>());
    assert_eq!(keys, expected);
}

#[test]
fn elements_are_named_by_their_merge_keys() {
    check(
        &["/spec"],
        &["/spec/containers", "/spec/volumes"],
        |pod| {
            pod.get("/spec/containers/1/image").unwrap();
            pod.get("/spec/containers/1/volumeMounts/[mountPath=~1data]")
                .unwrap();
            pod.keys("/spec/containers").unwrap();
            pod.keys("/metadata").unwrap_err();
            pod.set(
                "/spec/containers/0/env/[name=B]",
                r#"{"value":"b"}"#.to_owned(),
            )
            .unwrap();
            pod.set("/spec/volumes/-", r#"{"name":"tmp"}"#.to_owned())
                .unwrap();
            pod.insert("/spec/containers/0", r#"{"name":"first"}"#.to_owned())
                .unwrap();
        },
        [
            &[
                "/spec/containers/*",
                "/spec/containers/[name=proxy]/image",
                "/spec/containers/[name=proxy]/volumeMounts/[mountPath=~1data]",
            ],
            &[
                "/spec/containers/[name=app]/env/[name=B]",
                "/spec/containers/[name=first]",
                "/spec/volumes/[name=tmp]",
            ],
        ],
    );
}

#[test]
fn selectors_of_grants_come_first() {
    check(
        &["/spec/tolerations/[key=a]"],
        &["/spec/containers/[image=x]"],
        |pod| {
            pod.get("/spec/tolerations/[key=a]/effect").unwrap();
            pod.set(
                "/spec/containers/-",
                r#"{"name":"new","image":"x"}"#.to_owned(),
            )
            .unwrap();
        },
        [
            &["/spec/tolerations/[key=a]/effect"],
            &["/spec/containers/[image=x]"],
        ],
    );
}

/// A refused access needs no grant; one without effect does.
#[test]
fn only_what_is_refused_is_left_out() {
    check(
        &[],
        &["/metadata/labels/app", "/metadata/labels/gone"],
        |pod| {
            pod.set("/metadata/labels/app", "\"web\"".to_owned())
                .unwrap();
            assert!(!pod.remove("/metadata/labels/gone").unwrap());
            pod.set("/metadata/labels/other", "\"x\"".to_owned())
                .unwrap_err();
            pod.get("/metadata/labels/other").unwrap_err();
            pod.set("/metadata/labels/app", "1".to_owned()).unwrap_err();
        },
        [&[], &["/metadata/labels/app", "/metadata/labels/gone"]],
    );
}

#[test]
fn fields_of_views_are_reads_of_their_own() {
    check(
        &["/spec/containers/*/name", "/spec/hostNetwork"],
        &[],
        |pod| {
            let fields = ["/containers/*/name", "/hostNetwork"];
            pod.view("/spec", &fields).unwrap();
            pod.view("/spec", &["/nodeName"]).unwrap_err();
        },
        [&["/spec/containers/*/name", "/spec/hostNetwork"], &[]],
    );
}

#[test]
fn usage_of_several_runs_adds_up() {
    let pod = Transaction::begin(pod(), Access::unrestricted().into(), [].into()).recording();
    pod.get("/spec/nodeName").unwrap();
    let mut usage = pod.usage().unwrap();
    usage.add(&pod.usage().unwrap());
    assert_eq!(usage.reads["/spec/nodeName"], 2);
    let nothing = Transaction::begin(json!({}), Access::unrestricted().into(), [].into());
    assert_eq!(nothing.usage(), None);
}

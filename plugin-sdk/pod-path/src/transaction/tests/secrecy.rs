//! Results do not depend on values that are not granted.

use serde_json::{Value, json};

use super::{Transaction, granted, kind};
use crate::{Access, EditError, Grants};

/// Makes an access on a pod with the guessed value and on one without, and compares the results.
#[track_caller]
fn check_guess(
    reads: &[&str],
    writes: &[&str],
    pods: [Value; 2],
    ask: impl Fn(&mut Transaction) -> Result<String, EditError>,
) {
    let answers = pods.map(|pod| {
        let access = Access::new(
            Grants::parse(reads).unwrap(),
            Grants::parse_writes(writes).unwrap(),
        );
        ask(&mut Transaction::begin(pod, access.into(), [].into()))
    });
    assert_eq!(kind(&answers[0]), "forbidden", "{answers:?}");
    assert_eq!(answers[0], answers[1]);
}

fn with_env(value: &str) -> Value {
    json!({ "spec": { "containers": [{ "name": "app", "env": [{ "name": "PASSWORD", "value": value }] }] } })
}

#[test]
fn a_selector_reveals_no_value_that_may_not_be_read() {
    let pods = || [with_env("guess"), with_env("other")];
    let guess = "/spec/containers/0/env/[value=guess]";
    let reads: [&[&str]; 4] = [
        &["/metadata/labels"],
        &["/spec/containers/*/image"],
        &["/spec/containers/*/env/*/name"],
        &["/spec/containers/[name=app]/env/[name=PASSWORD]/valueFrom"],
    ];
    for reads in reads {
        check_guess(reads, &[], pods(), |pod| {
            pod.view(guess, &["/name/zz"])
                .map(|view| format!("{view:?}"))
        });
        check_guess(reads, &[], pods(), |pod| {
            pod.get(&format!("{guess}/name"))
                .map(|got| format!("{got:?}"))
        });
        check_guess(reads, &["/spec/containers/*/env/[name=A]"], pods(), |pod| {
            pod.insert(guess, r#"{"name":"A"}"#.to_owned())
                .map(|()| String::new())
        });
    }
}

#[test]
fn an_insertion_reveals_neither_image_nor_count() {
    let pods = || {
        [
            json!({ "spec": { "containers": [{ "name": "a", "image": "guess" }] } }),
            json!({ "spec": { "containers": [{ "name": "a" }, { "name": "b" }] } }),
        ]
    };
    for place in ["[image=guess]", "0", "1", "2", "[name=a]"] {
        check_guess(&[], &["/spec/containers/[name=new]"], pods(), |pod| {
            let path = format!("/spec/containers/{place}");
            pod.insert(&path, r#"{"name":"new"}"#.to_owned())
                .map(|()| String::new())
        });
    }
    // Nor does the index of the inserted element.
    for place in ["0", "1", "2"] {
        check_guess(&[], &["/spec/containers/[name=new]"], pods(), |pod| {
            pod.set("/spec/containers/-", r#"{"name":"new"}"#.to_owned())?;
            pod.get(&format!("/spec/containers/{place}/name"))
                .map(|got| format!("{got:?}"))
        });
    }
}

#[test]
fn the_number_of_matches_is_revealed_only_if_the_field_may_be_read() {
    let pods = || {
        let two = json!([{ "name": "a", "image": "x" }, { "name": "b", "image": "x" }]);
        [
            json!({ "spec": { "containers": two } }),
            json!({ "spec": { "containers": [] } }),
        ]
    };
    for reads in [&["/metadata"][..], &["/spec/containers/*/env"]] {
        check_guess(reads, &[], pods(), |pod| {
            pod.get("/spec/containers/[image=x]/env")
                .map(|got| format!("{got:?}"))
        });
    }
    let outcome =
        granted(&["/spec/containers/*/image"], &[]).get("/spec/containers/[image=x]/image");
    assert_eq!(kind(&outcome), "fine");
}

#[test]
fn a_refused_map_reveals_nothing_about_its_keys() {
    let pods = [
        json!({ "metadata": { "labels": { "selenosis.io/browser": "chrome" } } }),
        json!({ "metadata": { "labels": { "app": "web" } } }),
    ];
    check_guess(&[], &["/metadata/labels/x"], pods, |pod| {
        pod.set("/metadata/labels", "{}".to_owned())
            .map(|()| String::new())
    });
    let pods = [
        json!({ "metadata": { "annotations": { "guess": "x" } } }),
        json!({ "metadata": { "annotations": { "other": "x" } } }),
    ];
    for field in [
        "/annotations/guess",
        "/annotations/guess/zz",
        "/annotations/guess/zz/*",
    ] {
        check_guess(
            &["/metadata/labels"],
            &["/metadata/annotations/x"],
            pods.clone(),
            |pod| {
                pod.view("/metadata", &[field])
                    .map(|view| format!("{view:?}"))
            },
        );
    }
}

#[test]
fn the_refusal_names_the_field_that_would_have_been_read() {
    let transaction = granted(&["/spec/containers/*/env"], &[]);
    let line = |outcome: Result<Option<String>, EditError>| {
        let text = outcome.unwrap_err().to_string();
        text.split('`').nth(1).unwrap().to_owned()
    };
    let get = |path| line(transaction.get(path));
    assert_eq!(
        get("/spec/containers/[image=x]/env"),
        r#"- "/spec/containers/*/image""#
    );
    assert_eq!(
        get("/spec/containers/0/image"),
        r#"- "/spec/containers/*/image""#
    );
    assert_eq!(
        get("/spec/containers/[name=a]/image"),
        r#"- "/spec/containers/[name=a]/image""#
    );
    let view = transaction.view(
        "/spec",
        &["/containers/*/env", "/containers/*/ports/*/hostPort"],
    );
    assert_eq!(line(view), r#"- "/spec/containers/*/ports/*/hostPort""#);
    let position = granted(&["/spec/containers/[name=proxy]"], &[]).get("/spec/containers/0/image");
    assert_eq!(line(position), r#"- "/spec/containers/*/image""#);
}

#[test]
fn a_grant_below_a_star_lets_elements_be_named_by_key_and_index() {
    let transaction = granted(&["/spec/containers/*/image"], &[]);
    for element in ["1", "[name=proxy]", "[image=envoy]"] {
        let got = transaction.get(&format!("/spec/containers/{element}/image"));
        assert_eq!(got.unwrap().as_deref(), Some("\"envoy\""), "{element}");
    }
    assert_eq!(
        kind(&transaction.get("/spec/containers/1/name")),
        "forbidden"
    );
    assert_eq!(transaction.keys("/spec/containers").unwrap(), ["0", "1"]);
    assert_eq!(kind(&transaction.keys("/spec/containers/0")), "forbidden");
}

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use kube::core::{ObjectMeta, Selector};

use super::{Index, Interest, Place, SeenObject};
use crate::checked::Selection;
use crate::discovery::KindKey;
use crate::memory::CleanerId;

fn id(name: &str) -> CleanerId {
    CleanerId {
        namespace: "demo".into(),
        name: name.into(),
        uid: name.into(),
    }
}

fn pods() -> KindKey {
    KindKey {
        group: String::new(),
        version: "v1".to_owned(),
        plural: "pods".to_owned(),
    }
}

fn place() -> Place {
    (pods(), "demo".into())
}

fn interest(wanted: Selection) -> Interest {
    (place(), wanted)
}

fn named(name: &str) -> Interest {
    interest(Selection::One(name.to_owned()))
}

fn labelled(key: &'static str, value: &'static str) -> Interest {
    interest(Selection::Labelled(Ok(Selector::from_iter([(key, value)]))))
}

fn seen(name: &str, version: &str) -> SeenObject {
    (place(), name.to_owned(), version.to_owned())
}

fn object(name: &str, version: &str, labels: &[(&str, &str)]) -> ObjectMeta {
    let labels = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    ObjectMeta {
        name: Some(name.to_owned()),
        resource_version: Some(version.to_owned()),
        labels: Some(labels.collect::<BTreeMap<_, _>>()),
        ..ObjectMeta::default()
    }
}

#[track_caller]
fn check(index: &Index, object: &ObjectMeta, expected: &[&str]) {
    let mut names: Vec<String> = index
        .affected(&place(), object)
        .iter()
        .map(|id| id.name.to_string())
        .collect();
    names.sort();
    assert_eq!(names, expected);
}

#[test]
fn a_missing_object_is_noticed_when_it_is_created() {
    let mut index = Index::default();
    index.set(&id("a"), &[named("web")]);
    index.see(&id("a"), Vec::new());
    check(&index, &object("web", "7", &[]), &["a"]);
    check(&index, &object("other", "8", &[]), &[]);
}

#[test]
fn what_was_seen_exactly_so_matters_to_nobody() {
    let mut index = Index::default();
    index.set(&id("a"), &[named("web"), labelled("app", "x")]);
    index.see(&id("a"), vec![seen("web", "7"), seen("worker", "8")]);
    check(&index, &object("web", "7", &[]), &[]);
    check(&index, &object("web", "9", &[]), &["a"]);
    check(&index, &object("worker", "8", &[("app", "x")]), &[]);
    check(&index, &object("new", "9", &[("app", "x")]), &["a"]);
}

#[test]
fn an_object_that_leaves_the_selector_is_noticed() {
    let mut index = Index::default();
    index.set(&id("a"), &[labelled("app", "x")]);
    index.see(&id("a"), vec![seen("worker", "8")]);
    check(&index, &object("worker", "9", &[("app", "y")]), &["a"]);
}

#[test]
fn selectors_without_an_equation_are_tried_too() {
    let mut index = Index::default();
    let all = interest(Selection::Labelled(Ok(Selector::default())));
    index.set(&id("all"), &[all]);
    index.set(&id("one"), &[labelled("app", "x")]);
    check(
        &index,
        &object("new", "1", &[("app", "x")]),
        &["all", "one"],
    );
    check(&index, &object("new", "1", &[("app", "y")]), &["all"]);
}

#[test]
fn who_left_is_not_woken() {
    let mut index = Index::default();
    index.set(&id("a"), &[named("web"), labelled("app", "x")]);
    index.see(&id("a"), vec![seen("worker", "1")]);
    assert!(index.knows("a"));
    assert_eq!(index.users(&place()), [id("a")]);
    index.set(&id("a"), &[]);
    assert!(!index.knows("a"));
    check(&index, &object("web", "7", &[]), &[]);
    check(&index, &object("worker", "7", &[("app", "x")]), &[]);
    assert!(index.places.is_empty());
}

#[test]
fn another_namespace_is_another_place() {
    let mut index = Index::default();
    index.set(&id("a"), &[named("web")]);
    let other: Place = (pods(), "other".into());
    assert_eq!(index.affected(&other, &object("web", "7", &[])), []);
}

/// After an interruption, a list shows only what there is.
#[test]
fn what_is_missing_in_a_list_is_noticed() {
    let mut index = Index::default();
    index.set(&id("a"), &[labelled("app", "x")]);
    index.see(&id("a"), vec![seen("web", "7"), seen("worker", "8")]);
    let web = (Arc::from("demo"), "web".to_owned());
    let worker = (Arc::from("demo"), "worker".to_owned());
    assert!(index.is_seen(&place(), "web") && !index.is_seen(&place(), "other"));
    let all = HashSet::from([web.clone(), worker]);
    assert_eq!(index.missing(&pods(), None, &all), []);
    let some = HashSet::from([web]);
    assert_eq!(index.missing(&pods(), Some("demo"), &some), [id("a")]);
    assert_eq!(index.missing(&pods(), Some("other"), &some), []);
}

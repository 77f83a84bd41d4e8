use std::collections::BTreeSet;

use podloom_api::PortalExposeObject;
use serde_json::json;

use super::{Id, Rivals, id};

fn all(exposes: &[&PortalExposeObject]) -> Rivals {
    let rivals = Rivals::default();
    for expose in exposes {
        rivals.put(expose);
    }
    rivals
}

/// A PortalExpose with the application `shop` at these relays.
fn expose(namespace: &str, name: &str, created: &str, relays: &[&str]) -> PortalExposeObject {
    let targets: Vec<_> = relays
        .iter()
        .map(|url| json!({ "name": url, "url": url }))
        .collect();
    serde_json::from_value(json!({
        "metadata": {
            "namespace": namespace, "name": name, "uid": format!("{namespace}/{name}"),
            "creationTimestamp": format!("2026-01-01T00:00:{created}Z"),
            "finalizers": ["portal.gosuda.org/cleanup-tunnel-deployment"],
        },
        "spec": {
            "app": { "name": "shop", "service": { "name": "shop", "port": 80 } },
            "relay": { "targets": targets },
        },
    }))
    .unwrap()
}

/// Whether the first loses to the second, and what it learns of it.
fn lost(
    first: &PortalExposeObject,
    second: &PortalExposeObject,
) -> Option<(String, Option<String>)> {
    let found = all(&[first, second]).conflict(first)?;
    Some((found.authority.to_string(), found.name))
}

const RELAY: &str = "wss://relay.example.com/relay";

#[test]
fn the_older_one_gets_the_hostname() {
    let old = expose("team", "b", "01", &[RELAY]);
    let new = expose("team", "a", "02", &[RELAY]);
    let expected = ("relay.example.com".to_owned(), Some("b".to_owned()));
    assert_eq!(lost(&new, &old), Some(expected));
    assert_eq!(lost(&old, &new), None);
}

#[test]
fn of_two_of_the_same_age_the_first_by_namespace_and_name_gets_it() {
    let a = expose("team", "a", "01", &[RELAY]);
    let b = expose("team", "b", "01", &[RELAY]);
    let other = expose("alpha", "z", "01", &[RELAY]);
    assert!(lost(&b, &a).is_some());
    assert!(lost(&a, &b).is_none());
    assert!(lost(&a, &other).is_some());
}

#[test]
fn names_in_other_namespaces_stay_unknown() {
    let old = expose("theirs", "secret-project", "01", &[RELAY]);
    let new = expose("team", "a", "02", &[RELAY]);
    let expected = ("relay.example.com".to_owned(), None);
    assert_eq!(lost(&new, &old), Some(expected));
}

#[test]
fn one_relay_in_common_is_enough_whatever_its_scheme_and_path() {
    let old = expose(
        "team",
        "b",
        "01",
        &["https://RELAY.example.com:443/x", "wss://one.example.com"],
    );
    let new = expose("team", "a", "02", &["wss://two.example.com", RELAY]);
    assert!(lost(&new, &old).is_some());
}

#[test]
fn another_application_or_another_port_is_no_conflict() {
    let old = expose("team", "b", "01", &["wss://relay.example.com:8443"]);
    let mut new = expose("team", "a", "02", &[RELAY]);
    assert_eq!(lost(&new, &old), None);
    new = expose("team", "a", "02", &["wss://relay.example.com:8443"]);
    new.spec.app.name = "blog".to_owned();
    assert_eq!(lost(&new, &old), None);
}

#[test]
fn one_whose_tunnel_is_gone_no_longer_counts() {
    let mut old = expose("team", "b", "01", &[RELAY]);
    let new = expose("team", "a", "02", &[RELAY]);
    old.metadata.deletion_timestamp = old.metadata.creation_timestamp.clone();
    assert!(lost(&new, &old).is_some());
    let rivals = all(&[&old, &new]);
    old.metadata.finalizers = Some(vec!["example.com/keep".to_owned()]);
    assert_eq!(names(&rivals.put(&old)), ["a"]);
    assert!(rivals.conflict(&new).is_none());
}

fn names(ids: &BTreeSet<Id>) -> Vec<&str> {
    ids.iter().map(|(_, name)| name.as_str()).collect()
}

/// Whoever makes many with the same hostname must not make each wake all others.
#[test]
fn only_a_new_winner_concerns_others() {
    let of = |name, created| expose("team", name, created, &[RELAY]);
    let (old, new, newest) = (of("c", "02"), of("b", "03"), of("a", "04"));
    let rivals = all(&[&old, &new]);
    assert_eq!(names(&rivals.put(&newest)), [""; 0]);
    let mut edited = old.clone();
    edited.metadata.generation = Some(2);
    edited.spec.app.service.port = 81;
    assert_eq!(names(&rivals.put(&edited)), [""; 0]);
    assert_eq!(names(&rivals.put(&of("d", "01"))), ["a", "b", "c"]);
    assert_eq!(names(&rivals.remove(&id(&newest.metadata))), [""; 0]);
    assert_eq!(
        names(&rivals.remove(&id(&of("d", "01").metadata))),
        ["b", "c"]
    );
}

#[test]
fn nothing_is_kept_of_those_that_are_gone() {
    let relays = ["wss://one.example.com", "wss://two.example.com"];
    let mut it = expose("team", "a", "01", &relays);
    let rivals = all(&[&it]);
    assert_eq!(rivals.len(), 2);
    it.metadata.generation = Some(2);
    it.spec.relay.targets.truncate(1);
    rivals.put(&it);
    assert_eq!(rivals.len(), 1);
    rivals.remove(&id(&it.metadata));
    assert_eq!(rivals.len(), 0);
}

/// A schema of before may have let it in.
#[test]
fn only_the_first_relays_of_too_many_are_looked_at() {
    let relays: Vec<_> = (0..20)
        .map(|it| format!("wss://r{it}.example.com"))
        .collect();
    let relays: Vec<_> = relays.iter().map(String::as_str).collect();
    assert_eq!(all(&[&expose("team", "a", "01", &relays)]).len(), 16);
}

use podloom_api::PortalExposeObject;
use serde_json::json;

use super::{conflict, edition};

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
    let found = conflict(first, [first, second].into_iter())?;
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
    let before = old.clone();
    old.metadata.finalizers = Some(vec!["example.com/keep".to_owned()]);
    assert!(lost(&new, &old).is_none());
    assert_ne!(edition(&before.metadata), edition(&old.metadata));
}

use std::collections::BTreeSet;

use podloom_api::Browser;
use serde_json::{Value, json};

use super::{GROWTH_KIB, audit_logs, doubled, grown, pod_made, waits};

/// A line of the audit log, as the API server writes it.
fn line(name: &str, code: u16) -> Value {
    json!({
        "kind": "Event", "verb": "create", "user": { "username": "system:serviceaccount:a:b" },
        "objectRef": { "resource": "pods", "name": name },
        "responseStatus": { "code": code }, "requestReceivedTimestamp": "2026-01-01T00:00:00.000000Z",
    })
}

#[test]
fn a_second_pod_is_found() {
    let made = |names: &[&str]| -> Vec<_> {
        names
            .iter()
            .filter_map(|name| pod_made(&line(name, 201).to_string()))
            .collect()
    };
    assert_eq!(doubled(&made(&["a", "b"])), Vec::<String>::new());
    assert_eq!(
        doubled(&made(&["a", "b", "a"])),
        ["2 pods were created for a"]
    );
}

#[test]
fn a_rejected_pod_does_not_count() {
    let text = line("a", 201).to_string();
    assert!(pod_made(&text).is_some());
    assert!(pod_made(&line("a", 403).to_string()).is_none());
    assert!(pod_made(&text[..text.len() - 1]).is_none(), "half written");
    let mut eviction = line("a", 201);
    eviction["objectRef"]["subresource"] = json!("eviction");
    assert!(pod_made(&eviction.to_string()).is_none());
}

#[test]
fn memory_that_grows_is_found() {
    assert_eq!(grown(&[]), None);
    assert_eq!(grown(&[50_000, 90_000, 50_000 + GROWTH_KIB]), None);
    let found = grown(&[50_000, 50_001 + GROWTH_KIB]).expect("it is found");
    assert!(found.starts_with("grew from 50000 to "), "{found}");
}

#[test]
fn a_browser_without_its_own_pod_waits() {
    let browser = |phase: &str| -> Browser {
        let browser = json!({
            "apiVersion": "selenosis.io/v1", "kind": "Browser", "metadata": { "name": "a" },
            "spec": { "browserName": "chrome", "browserVersion": "1" },
            "status": { "phase": phase, "podUID": "p" },
        });
        serde_json::from_value(browser).expect("a Browser")
    };
    let pods = |uid: &str| BTreeSet::from([uid.to_owned()]);
    assert!(!waits(&browser("Running"), &pods("p")));
    assert!(waits(&browser("Running"), &pods("of another")));
    assert!(waits(&browser("Running"), &BTreeSet::new()));
    assert!(waits(&browser("Pending"), &pods("p")));
    let mut going = browser("Running");
    going.metadata.deletion_timestamp =
        serde_json::from_value(json!("2026-01-01T00:00:00Z")).expect("a time");
    assert!(waits(&going, &pods("p")));
}

#[test]
fn a_rotated_audit_log_is_read_too() {
    let directory = tempfile::TempDir::new().expect("a directory");
    for name in [
        "audit.log",
        "audit-2026-01-01T00-00-00.000.log",
        "audit-policy.yaml",
    ] {
        std::fs::write(directory.path().join(name), "").expect("written");
    }
    let logs = audit_logs(&directory.path().join("audit.log")).expect("read");
    assert_eq!(logs.len(), 2, "{logs:?}");
}

use k8s_openapi::api::core::v1::Pod;
use podloom_api::Browser;
use serde_json::{Value, json};

use super::{Findings, Ledger};

fn browser(version: &str, status: &Value) -> Browser {
    serde_json::from_value(json!({
        "apiVersion": "selenosis.io/v1", "kind": "Browser", "metadata": { "name": "b" },
        "spec": { "browserName": "chrome", "browserVersion": version }, "status": status,
    }))
    .unwrap()
}

fn pod(uid: &str) -> Pod {
    let owner =
        json!({ "apiVersion": "selenosis.io/v1", "kind": "Browser", "name": "b", "uid": "u" });
    serde_json::from_value(
        json!({ "metadata": { "name": "b", "uid": uid, "ownerReferences": [owner] } }),
    )
    .unwrap()
}

/// Checks the findings after these events.
#[track_caller]
fn check(happens: impl Fn(&Ledger, &Findings), expected: &[&str]) {
    let (ledger, findings) = (Ledger::default(), Findings::default());
    happens(&ledger, &findings);
    let found = findings.take();
    let is_so = found.len() == expected.len()
        && found
            .iter()
            .zip(expected)
            .all(|(found, start)| found.starts_with(start));
    assert!(is_so, "{found:?}");
}

#[test]
fn a_second_pod_is_found() {
    let twice = |ledger: &Ledger, findings: &Findings| {
        for uid in ["first", "first", "second"] {
            ledger.has_pod(&pod(uid), findings);
        }
    };
    check(twice, &["b got a second pod"]);
}

#[test]
fn an_end_that_the_version_does_not_have_is_found() {
    let failed = json!({ "phase": "Failed", "reason": "Error", "message": "m" });
    let ends = |version| {
        let failed = failed.clone();
        move |ledger: &Ledger, findings: &Findings| {
            ledger.seen(&browser(version, &failed), findings);
            ledger.gone("b", findings);
        }
    };
    check(ends("browser-exits"), &[]);
    check(ends("running"), &["b (running) ended as Error: m"]);
}

#[test]
fn a_browser_that_disappears_without_a_reason_is_found() {
    let runs = browser("running", &json!({ "phase": "Running" }));
    let goes = |ledger: &Ledger, findings: &Findings| {
        ledger.seen(&runs, findings);
        ledger.gone("b", findings);
    };
    check(goes, &["b disappeared without a reason"]);
    let deleted = |ledger: &Ledger, findings: &Findings| {
        ledger.seen(&runs, findings);
        ledger.deleted("b");
        ledger.gone("b", findings);
    };
    check(deleted, &[]);
}

use jiff::{SignedDuration, Timestamp};
use podloom_mutation::{PluginOutcome, PluginRun, PodRejection, RejectedPod};
use serde_json::{Value, json};

use super::document::{Kinds, document, merged};
use super::{FINDINGS_OF_ONE, Findings, Key, Policy};
use crate::cli::ReportGroup;

const OWNER: (&str, &str) = ("shop", "Deployment/shop/web");

fn denied(reason: &str) -> RejectedPod {
    RejectedPod {
        rejection: PodRejection::Denied(reason.to_owned()),
        runs: vec![PluginRun {
            plugin: "policy".to_owned(),
            outcome: PluginOutcome::Denied(reason.to_owned()),
            ..PluginRun::default()
        }],
    }
}

/// The report of shop after this process has merged what it knows.
fn report(findings: &Findings, before: &Value) -> Value {
    let kinds = Kinds::of(ReportGroup::OpenReports);
    let results = json!(merged("shop", before, &findings.known("shop")));
    json!(document(
        &kinds.of_namespace,
        ("shop", "podloom-webhook"),
        results
    ))
}

fn lines(report: &Value) -> Vec<String> {
    let results = report["results"].as_array().unwrap().iter();
    let text = |of: &Value| of.as_str().unwrap_or_default().to_owned();
    let line = results.map(|it| {
        let about = &it["resources"][0];
        [&it["policy"], &it["rule"], &about["name"]]
            .map(text)
            .join(" ")
    });
    line.collect()
}

fn drift(rule: &str, name: &str) -> (String, Key, String) {
    let key = Key::of(Policy::Drift, rule, ("Deployment", name));
    ("shop".to_owned(), key, "1 pod".to_owned())
}

#[test]
fn replicas_add_what_they_found_and_the_leader_says_what_drifted() {
    let (one, leader) = (Findings::default(), Findings::default());
    one.passed(OWNER, &Err(denied("a: forbidden")));
    let first = report(&one, &Value::Null);
    assert_eq!(lines(&first), ["denial policy web"]);
    assert_eq!(first["summary"]["fail"], 1);

    leader.all_of(
        Policy::Drift,
        vec![drift("missed", "old"), drift("changed", "db")],
    );
    let both = report(&leader, &first);
    let expected = ["denial policy web", "drift changed db", "drift missed old"];
    assert_eq!(lines(&both), expected);
    // Whoever merges it next changes nothing.
    assert_eq!(report(&one, &both), both);
    assert_eq!(report(&Findings::default(), &both), both);

    leader.all_of(Policy::Drift, vec![drift("changed", "db")]);
    let later = report(&leader, &both);
    assert_eq!(lines(&later), ["denial policy web", "drift changed db"]);
    // What an earlier leader said goes, too.
    let next = Findings::default();
    next.all_of(Policy::Drift, Vec::new());
    assert_eq!(lines(&report(&next, &later)), ["denial policy web"]);
    next.forget(&[Policy::Drift]);
    assert_eq!(report(&next, &later), later);
}

#[test]
fn a_denial_goes_when_a_pod_of_the_owner_passes_or_after_a_while() {
    let findings = Findings::default();
    findings.passed(OWNER, &Err(denied("a: forbidden")));
    let seen = report(&findings, &Value::Null);
    findings.passed(("shop", "Deployment/shop/other"), &Ok(passed()));
    assert_eq!(report(&findings, &seen), seen);
    findings.passed(OWNER, &Ok(passed()));
    let known = findings.known("shop");
    assert_eq!(lines(&report(&findings, &seen)), [""; 0]);
    findings.written("shop", &known);
    assert_eq!(findings.namespaces(), [""; 0]);

    let mut old = seen;
    let long_ago = Timestamp::now() - SignedDuration::from_mins(31);
    old["results"][0]["timestamp"]["seconds"] = long_ago.as_second().into();
    assert_eq!(lines(&report(&findings, &old)), [""; 0]);
}

fn passed() -> podloom_mutation::MutatedPod {
    podloom_mutation::MutatedPod::untouched(json!({}))
}

#[test]
fn what_another_candidate_would_do_goes_once_that_is_known() {
    let findings = Findings::default();
    let key = Key::of(Policy::Candidate, "policy", ("Deployment", "web"));
    findings.note("shop", key, "denies", Some("one"));
    let seen = report(&findings, &Value::Null);
    let (leader, other) = (Findings::default(), Findings::default());
    leader.all_of(Policy::Chain, Vec::new());
    for (candidate, left) in [
        (None, [1, 1, 1]),
        (Some("one"), [1, 1, 1]),
        // A replica knows that of itself; of others, the leader says it.
        (Some("two"), [0, 0, 1]),
        (Some(""), [0, 0, 1]),
    ] {
        let left_by = [&findings, &leader, &other].map(|of| {
            let mut known = of.known("shop");
            known.candidate = candidate.map(str::to_owned);
            merged("shop", &seen, &known).len()
        });
        assert_eq!(left_by, left, "{candidate:?}");
    }
}

#[test]
fn a_report_is_bounded_and_a_tenant_cannot_fill_the_memory() {
    let findings = Findings::default();
    for number in 0..1000 {
        let owner = format!("Deployment/shop/{}{number}", "w".repeat(1000));
        let denied = denied(&"long ".repeat(1000));
        findings.passed(("shop", &owner), &Err(denied));
    }
    assert_eq!(findings.known("shop").found.len(), FINDINGS_OF_ONE);
    let seen = report(&findings, &Value::Null);
    assert!(seen.to_string().len() < 200 << 10);
    let lines = lines(&seen);
    assert_eq!((lines.len(), lines[100].as_str()), (101, "report more "));
    // The next one does not take the hundred for all.
    assert_eq!(report(&Findings::default(), &seen), seen);
}

#[test]
fn what_somebody_else_wrote_into_a_report_goes() {
    let odd = json!({ "results": [1, { "policy": "drift" }, { "policy": "mine", "rule": "x" }] });
    assert_eq!(lines(&report(&Findings::default(), &odd)), [""; 0]);
}

#[test]
fn the_same_is_noted_once() {
    let findings = Findings::default();
    for _ in 0..3 {
        findings.passed(OWNER, &Err(denied("a: forbidden")));
    }
    assert_eq!(findings.take_changed().len(), 1);
    findings.passed(OWNER, &Err(denied("b: forbidden")));
    assert!(findings.take_changed().is_empty());
}

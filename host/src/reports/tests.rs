use jiff::{SignedDuration, Timestamp};
use podloom_engine::clock::Clock;
use podloom_mutation::{CallFailure, PluginOutcome, PluginRun, PodRejection, RejectedPod};
use podloom_turns::lock;
use serde_json::{Value, json};

use super::document::{Kinds, document, merged};
use super::{Key, NOTES_OF_ONE, Notes, Policy};
use crate::cli::ReportGroup;

const OWNER: (&str, &str) = ("shop", "Deployment/shop/web");

fn notes() -> Notes {
    Notes::new(&Clock::new())
}

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
fn report(notes: &Notes, before: &Value) -> Value {
    let kinds = Kinds::of(ReportGroup::OpenReports);
    let results = json!(merged("shop", before, &notes.known("shop")));
    json!(document(
        &kinds.of_namespace,
        ("shop", "podloom-webhook"),
        &results
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
    let (one, leader) = (notes(), notes());
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
    assert_eq!(report(&notes(), &both), both);

    leader.all_of(Policy::Drift, vec![drift("changed", "db")]);
    let later = report(&leader, &both);
    assert_eq!(lines(&later), ["denial policy web", "drift changed db"]);
    // What an earlier leader said goes, too.
    let next = notes();
    next.all_of(Policy::Drift, Vec::new());
    assert_eq!(lines(&report(&next, &later)), ["denial policy web"]);
    next.forget(&[Policy::Drift]);
    assert_eq!(report(&next, &later), later);
}

#[test]
fn a_denial_goes_when_a_pod_of_the_owner_passes_or_after_a_while() {
    let notes = notes();
    notes.passed(OWNER, &Err(denied("a: forbidden")));
    let seen = report(&notes, &Value::Null);
    notes.passed(("shop", "Deployment/shop/other"), &Ok(passed()));
    assert_eq!(report(&notes, &seen), seen);
    notes.passed(OWNER, &Ok(passed()));
    let known = notes.known("shop");
    assert_eq!(lines(&report(&notes, &seen)), [""; 0]);
    notes.written("shop", &known);
    assert_eq!(notes.namespaces(), [""; 0]);

    let mut old = seen;
    let long_ago = Timestamp::now() - SignedDuration::from_mins(31);
    old["results"][0]["timestamp"]["seconds"] = long_ago.as_second().into();
    assert_eq!(lines(&report(&notes, &old)), [""; 0]);
}

fn passed() -> podloom_mutation::MutatedPod {
    podloom_mutation::MutatedPod::untouched(json!({}))
}

#[test]
fn what_another_candidate_would_do_goes_once_that_is_known() {
    let notes = notes();
    let key = Key::of(Policy::Candidate, "policy", ("Deployment", "web"));
    notes.note("shop", key, "denies", Some("one"));
    let seen = report(&notes, &Value::Null);
    let (leader, other) = (self::notes(), self::notes());
    leader.all_of(Policy::Chain, Vec::new());
    for (candidate, left) in [
        (None, [1, 1, 1]),
        (Some("one"), [1, 1, 1]),
        // The leader says it.
        (Some("two"), [1, 0, 1]),
        (Some(""), [1, 0, 1]),
    ] {
        let left_by = [&notes, &leader, &other].map(|of| {
            let mut known = of.known("shop");
            known.candidate = candidate.map(str::to_owned);
            merged("shop", &seen, &known).len()
        });
        assert_eq!(left_by, left, "{candidate:?}");
    }
}

#[test]
fn a_report_is_bounded_and_a_tenant_cannot_fill_the_memory() {
    let notes = notes();
    for number in 0..1000 {
        let owner = format!("Deployment/shop/{number}{}", "w".repeat(1000));
        let denied = denied(&"long ".repeat(1000));
        notes.passed(("shop", &owner), &Err(denied));
    }
    assert_eq!(notes.known("shop").notes.len(), NOTES_OF_ONE);
    let all = (0..200).map(|it| drift("missed", &format!("web{it}")));
    notes.all_of(Policy::Drift, all.collect());
    let seen = report(&notes, &Value::Null);
    assert!(seen.to_string().len() < 200 << 10);
    let lines = lines(&seen);
    assert_eq!((lines.len(), lines[100].as_str()), (101, "report more "));
    // None keeps out all others.
    let drifted = lines.iter().filter(|it| it.starts_with("drift"));
    assert_eq!(drifted.count(), 20);
    // The next one does not take the hundred for all.
    assert_eq!(report(&self::notes(), &seen), seen);
}

#[test]
fn what_is_over_makes_room() {
    let notes = notes();
    for number in 0..NOTES_OF_ONE {
        let owner = format!("Deployment/shop/{number}");
        notes.passed(("shop", &owner), &Err(denied("no")));
    }
    let long_ago = Timestamp::now() - SignedDuration::from_mins(31);
    for note in lock(&notes.noted)
        .notes
        .get_mut("shop")
        .unwrap()
        .values_mut()
    {
        note.at = long_ago;
    }
    notes.passed(OWNER, &Err(denied("no")));
    assert_eq!(lines(&report(&notes, &Value::Null)), ["denial policy web"]);
}

#[test]
fn the_newer_of_two_replicas_is_right() {
    let (one, other) = (notes(), notes());
    one.passed(OWNER, &Err(denied("old")));
    let minutes = |number: i64| Timestamp::now() - SignedDuration::from_mins(number);
    let age = |notes: &Notes, at: Timestamp| {
        for note in lock(&notes.noted)
            .notes
            .get_mut("shop")
            .unwrap()
            .values_mut()
        {
            note.at = at;
        }
    };
    other.passed(OWNER, &Err(denied("new")));
    let newer = report(&other, &Value::Null);
    for minutes_ago in [20, 40] {
        // What one of them knows is older, or over.
        age(&one, minutes(minutes_ago));
        assert_eq!(report(&one, &newer), newer, "{minutes_ago}");
    }
    // A pod of the owner passed before that denial.
    one.passed(OWNER, &Ok(passed()));
    age(&one, minutes(5));
    assert_eq!(report(&one, &newer), newer);
}

#[test]
fn what_the_host_lacks_is_no_denial() {
    let notes = notes();
    for failure in [CallFailure::Overdue, CallFailure::NamespaceUnread] {
        let run = PluginRun {
            outcome: PluginOutcome::Failed(failure),
            ..PluginRun::default()
        };
        let rejection = run.rejection().unwrap();
        let runs = vec![run];
        notes.passed(OWNER, &Err(RejectedPod { rejection, runs }));
    }
    assert_eq!(notes.namespaces(), [""; 0]);
}

#[test]
fn what_somebody_else_wrote_into_a_report_goes() {
    let odd = json!({ "results": [1, { "policy": "drift" }, { "policy": "mine", "rule": "x" }] });
    assert_eq!(lines(&report(&notes(), &odd)), [""; 0]);

    let notes = notes();
    notes.passed(OWNER, &Err(denied("no")));
    let good = report(&notes, &Value::Null);
    let mut large = good.clone();
    large["results"][0]["message"] = "m".repeat(1 << 20).into();
    large["results"][0]["properties"] = json!({ "mine": "x".repeat(1 << 20) });
    assert!(report(&self::notes(), &large).to_string().len() < 2000);
    let mut future = good;
    future["results"][0]["timestamp"]["seconds"] = 4_102_444_800_i64.into();
    assert_eq!(lines(&report(&self::notes(), &future)), [""; 0]);
}

#[test]
fn the_same_is_noted_once() {
    let notes = notes();
    for _ in 0..3 {
        notes.passed(OWNER, &Err(denied("a: forbidden")));
    }
    assert_eq!(notes.take_changed().len(), 1);
    notes.passed(OWNER, &Err(denied("b: forbidden")));
    assert!(notes.take_changed().is_empty());
}

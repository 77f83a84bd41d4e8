//! The condition for which all this was made: it is true once no revision of a site is in use.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test has no other way to fail; the lint sees only functions marked as tests"
)]

use jiff::Timestamp;
use podloom_cel::{Budget, Reason, Variables, Verdict, compile_all, evaluate_all, next_true};
use serde_json::{Value, json};

const CONDITION: &str = r#"
!revisions.items.exists(r,
  r.metadata.annotations["serving.knative.dev/routes"]
    .split(",")
    .exists(route, !route.startsWith("sfj-") && !route.startsWith("preview-"))
  ||
  r.status.conditions
    .filter(c, c.type == "Active")
    .exists(c, c.status == "True" || time - timestamp(c.lastTransitionTime) < duration("360h"))
)
"#;

/// When the revisions went idle, and 360 hours later.
const IDLE_SINCE: &str = "2026-03-01T08:00:00Z";
const DUE: &str = "2026-03-16T08:00:00Z";

fn revision(routes: &str, active: &str) -> Value {
    json!({
        "apiVersion": "serving.knative.dev/v1",
        "kind": "Revision",
        "metadata": { "name": "shop-00001", "annotations": { "serving.knative.dev/routes": routes } },
        "status": { "conditions": [
            { "type": "Ready", "status": "True", "lastTransitionTime": "2026-03-20T00:00:00Z" },
            { "type": "Active", "status": active, "lastTransitionTime": IDLE_SINCE },
        ] },
    })
}

fn without_annotations(mut revision: Value) -> Value {
    if let Some(metadata) = revision["metadata"].as_object_mut() {
        metadata.remove("annotations");
    }
    revision
}

fn variables(revisions: &[Value]) -> Variables {
    let list = json!({ "apiVersion": "serving.knative.dev/v1", "kind": "RevisionList", "metadata": {}, "items": revisions });
    let mut variables = Variables::default();
    variables.insert("revisions", &list).unwrap();
    variables
}

/// Whether the condition is true, or why it is neither.
fn at(time: &str, revisions: &[Value]) -> Result<bool, (Reason, String)> {
    let programs = compile_all(&[CONDITION], &["revisions"]).unwrap();
    let time: Timestamp = time.parse().unwrap();
    let variables = variables(revisions);
    let evaluation = evaluate_all(&programs, &variables, time, Budget::EVALUATION);
    match evaluation.verdict() {
        Verdict::Met => Ok(true),
        Verdict::NotMet { index: 0 } => Ok(false),
        Verdict::NotMet { index } => panic!("there is no condition {index}"),
        Verdict::Failed(failure) => Err((failure.reason, failure.message.clone())),
    }
}

#[test]
fn it_is_true_when_all_revisions_are_idle_long_enough() {
    let idle = [
        revision("sfj-shop,preview-shop", "False"),
        revision("sfj-shop", "Unknown"),
    ];
    assert_eq!(at("2026-03-17T00:00:00Z", &idle), Ok(true));
    assert_eq!(at(DUE, &idle), Ok(true), "after exactly 360 hours");
    assert_eq!(at("2026-03-16T07:59:59Z", &idle), Ok(false));
    assert_eq!(at("2026-03-01T18:00:00Z", &idle), Ok(false), "after 10 h");
}

#[test]
fn it_is_true_without_revisions() {
    assert_eq!(at(DUE, &[]), Ok(true));
}

#[test]
fn it_is_false_while_a_revision_is_used() {
    let idle = revision("sfj-shop", "False");
    let foreign = revision("sfj-shop,shop", "False");
    assert_eq!(at(DUE, &[idle.clone(), foreign]), Ok(false));
    assert_eq!(at(DUE, &[idle, revision("sfj-shop", "True")]), Ok(false));
}

#[test]
fn a_missing_annotation_is_an_error_unless_it_does_not_matter() {
    let idle = without_annotations(revision("", "False"));
    let (reason, message) = at(DUE, &[idle]).unwrap_err();
    assert_eq!(reason, Reason::EvaluationError);
    let expected =
        r#"conditions[0]: no such key "annotations"; ask for it first, with has() or with `in`"#;
    assert_eq!(message, expected);
    let active = without_annotations(revision("", "True"));
    assert_eq!(at(DUE, &[active]), Ok(false));
}

#[test]
fn the_search_finds_the_very_second() {
    let programs = compile_all(&[CONDITION], &["revisions"]).unwrap();
    let idle = variables(&[revision("sfj-shop", "False")]);
    let now: Timestamp = "2026-03-04T05:06:07.89Z".parse().unwrap();
    let found = next_true(&programs, &idle, now, Budget::SEARCH);
    assert_eq!(found, Some(DUE.parse().unwrap()));
    let used = variables(&[revision("shop", "False")]);
    assert_eq!(next_true(&programs, &used, now, Budget::SEARCH), None);
}

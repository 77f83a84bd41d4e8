use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Asked, Chain, ask, ask_within, check, webhook};

fn cleaner(conditions: &Value) -> Value {
    json!({
        "apiVersion": "cleaner.vtex.dev/v1alpha",
        "kind": "Cleaner",
        "metadata": { "name": "a", "namespace": "team-a" },
        "spec": {
            "ttl": "1h",
            "retry": { "period": "5m" },
            "targets": [{
                "name": "job",
                "includeWhenEvaluating": true,
                "reference": { "apiGroup": "batch", "version": "v1", "kind": "Job", "name": "a" },
            }],
            "conditions": conditions,
        },
    })
}

async fn create(new: &Value) -> Asked {
    ask("cleaners", &json!({ "object": new })).await
}

async fn update(old: &Value, new: &Value) -> Asked {
    let review = json!({ "operation": "UPDATE", "object": new, "oldObject": old });
    ask("cleaners", &review).await
}

const TYPING_ERROR: &str = r#"spec.conditions[1]: 1:1: unknown name "jb"; known here: job, time"#;

#[tokio::test]
async fn a_cleaner_without_mistakes_is_admitted() {
    let new = cleaner(&json!([
        "has(job.status)",
        "time > timestamp('2026-01-01T00:00:00Z')"
    ]));
    check(&create(&new).await, None, &[]);
}

#[tokio::test]
async fn a_condition_that_does_not_compile_is_refused_with_its_index_and_position() {
    let new = cleaner(&json!(["true", "jb.status.active == 0"]));
    check(&create(&new).await, Some((422, TYPING_ERROR)), &[]);
    let new = cleaner(&json!(["job.a ==", "true", "nothing(job)"]));
    let asked = create(&new).await;
    let message = asked.answer.denial.expect("it is refused").message;
    assert!(
        message.starts_with("spec.conditions[0]: 1:9: "),
        "{message}"
    );
    assert!(message.contains("; spec.conditions[2]: 1:"), "{message}");
}

#[tokio::test]
async fn a_constant_that_can_never_be_evaluated_is_refused() {
    let new = cleaner(&json!([
        "true",
        "time - timestamp(job.status.completionTime) > duration('7d')"
    ]));
    let expected = r#"spec.conditions[1]: 1:55: "7d" is no duration of CEL, whose units are h, m and s; write duration("168h")"#;
    check(&create(&new).await, Some((422, expected)), &[]);
}

#[tokio::test]
async fn what_is_stored_already_is_a_warning() {
    let old = cleaner(&json!(["true", "jb.status.active == 0"]));
    let mut new = old.clone();
    new["spec"]["ttl"] = json!("2h");
    check(&update(&old, &new).await, None, &[TYPING_ERROR]);
    // A finalizer of ours, or a label.
    let mut new = old.clone();
    new["metadata"]["finalizers"] = json!(["cleaner.vtex.dev/deletion"]);
    check(&update(&old, &new).await, None, &[]);
    // Another mistake.
    let mut new = old.clone();
    new["spec"]["conditions"] = json!(["true", "jb.status.active == 0", "jib"]);
    let message = r#"spec.conditions[2]: 1:1: unknown name "jib"; known here: job, time"#;
    check(
        &update(&old, &new).await,
        Some((422, message)),
        &[TYPING_ERROR],
    );
}

#[tokio::test]
async fn the_spec_is_checked_as_the_operator_does() {
    let mut new = cleaner(&json!(["true"]));
    new["spec"]["ttl"] = json!("99999999h");
    new["spec"]["cloudEventSink"] = json!("http://");
    let asked = create(&new).await;
    let message = asked.answer.denial.expect("it is refused").message;
    let ttl =
        "spec.ttl: the duration is longer than 292 years, use a shorter one; spec.cloudEventSink: ";
    assert!(message.starts_with(ttl), "{message}");
}

#[tokio::test]
async fn a_missing_retry_an_impossible_label_and_an_excluded_namespace_are_warnings() {
    let mut new = cleaner(&json!(["true"]));
    new["spec"]["retry"].take();
    new["spec"]
        .as_object_mut()
        .expect("it is one")
        .remove("retry");
    new["spec"]["targets"][0]["reference"] =
        json!({ "version": "v1", "kind": "Pod", "matchLabels": { "app": "<app>" } });
    let asked = create(&new).await;
    assert!(asked.answer.denial.is_none());
    let [label, retry] = asked.answer.warnings.as_slice() else {
        panic!("{:?}", asked.answer.warnings)
    };
    let expected = r#"spec.targets[0].reference: target job matches no object: the value "<app>" of the label app "#;
    assert!(label.starts_with(expected), "{label}");
    let expected = "spec.retry: it is missing, so the conditions are evaluated every 5m, and when a target changes; write the period that you want";
    assert_eq!(retry, expected);
    let new = cleaner(&json!(["true"]));
    let asked = ask(
        "cleaners",
        &json!({ "object": new, "namespace": "kube-system" }),
    )
    .await;
    assert!(asked.answer.denial.is_none());
    let [excluded] = asked.answer.warnings.as_slice() else {
        panic!("{:?}", asked.answer.warnings)
    };
    assert!(excluded.starts_with("metadata.namespace: "), "{excluded}");
}

/// Whoever can write a Cleaner must not be able to stop the webhook: it answers at its deadline, and then has a thread for others.
#[tokio::test]
async fn conditions_that_take_long_to_compile_keep_nobody_waiting() {
    // Each name is looked up in each scope.
    let heavy = format!("[{}].all(x, x)", vec!["(((true)))"; 700].join(","));
    let webhook = webhook(&Arc::new(Chain::default()), Vec::new());
    let ask = async |conditions: &Value, time| {
        let began = Instant::now();
        let request = json!({ "object": cleaner(conditions) });
        let (answer, _) = ask_within(&webhook, "cleaners", &request, time).await;
        assert!(answer.denial.is_none(), "{:?}", answer.denial);
        (answer.warnings, began.elapsed())
    };
    let (warnings, of_one) = ask(&json!([heavy]), Duration::from_mins(1)).await;
    assert!(warnings.is_empty(), "{warnings:?}");
    // All of them would take eight times as long as there is time.
    let deadline = 4 * of_one;
    let (warnings, of_all) = ask(&json!(vec![heavy; 32]), deadline).await;
    assert_eq!(warnings, ["not checked: there was not enough time"]);
    assert!(of_all >= deadline, "it gave up early: {of_all:?}");
    let late = of_all.saturating_sub(deadline);
    assert!(
        late < 8 * of_one + Duration::from_secs(1),
        "{late:?} late, one takes {of_one:?}"
    );
    // The one that was being compiled goes to its end, those after it are not begun.
    let (warnings, of_next) = ask(&json!(["true"]), Duration::from_mins(1)).await;
    assert!(warnings.is_empty(), "{warnings:?}");
    assert!(
        of_next < 12 * of_one + Duration::from_secs(1),
        "{of_next:?}, one takes {of_one:?}"
    );
}

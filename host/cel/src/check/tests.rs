use serde_json::json;

use crate::evaluate::{Budget, evaluate_all};
use crate::program::compile_all;
use crate::variables::Variables;

/// Checks what is said of a condition that is true of a job without conditions, where there is no pod.
#[track_caller]
fn check(condition: &str, expected: Option<&str>) {
    let programs = compile_all(&[condition], &["job", "pods"]).expect("it compiles");
    let mut variables = Variables::default();
    variables
        .insert("pods", &json!({ "items": [] }))
        .expect("it is not deep");
    let job = json!({ "status": { "conditions": [], "names": ["a"] } });
    variables.insert("job", &job).expect("it is not deep");
    let now = jiff::Timestamp::UNIX_EPOCH;
    let evaluation = evaluate_all(&programs, &variables, now, Budget::EVALUATION);
    let remarks: Vec<&str> = evaluation.remarks.values().map(String::as_str).collect();
    let expected = expected.map(|it| format!("conditions[0]: {it}"));
    assert_eq!(remarks, expected.as_slice(), "{condition}");
}

#[test]
fn what_is_true_of_an_empty_list_says_so_and_how_to_ask() {
    check(
        "pods.items.all(pod, pod.ended)",
        Some(
            "pods.items is empty, and pods.items.all(...) is true of an empty list; to wait for one object, write size(pods.items) > 0 \
             && pods.items.all(...)",
        ),
    );
    check(
        "!pods.items.exists(pod, pod.runs) && true",
        Some(
            "pods.items is empty, and !pods.items.exists(...) is true of an empty list; to wait for one object, write size(pods.items) \
             > 0 && !pods.items.exists(...)",
        ),
    );
    check(
        "[1].all(x, job.status.conditions.all(it, it.ok))",
        Some(
            "job.status.conditions is empty, and job.status.conditions.all(...) is true of an empty list; to wait for one object, \
             write size(job.status.conditions) > 0 && job.status.conditions.all(...)",
        ),
    );
}

#[test]
fn a_condition_that_asks_for_the_size_needs_no_warning() {
    check(
        "size(pods.items) == 0 || pods.items.all(pod, pod.ended)",
        None,
    );
    check(
        "pods.items.size() == 0 && pods.items.all(pod, pod.ended)",
        None,
    );
    check("pods.items == [] || pods.items.all(pod, pod.ended)", None);
}

#[test]
fn nothing_is_said_of_other_lists() {
    check("job.status.names.all(name, name == 'a')", None);
    check("!job.status.names.exists(name, name == 'b')", None);
    check("job.status.names.all(pods, pods.startsWith('a'))", None);
    check("pods.items.filter(pod, pod.runs) == []", None);
}

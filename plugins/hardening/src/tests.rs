//! What the plugin does, judged by an independent reading of the Pod Security Standards.

mod beyond;
mod configuration;
mod exemptions;
mod matrix;
mod modes;
mod profile;
mod standard;
mod windows;

use podloom_plugin_sdk::Rejection;
use podloom_plugin_sdk::serde_json::{Value, json};
use podloom_plugin_sdk::testing::{self, Run, Submitted};

use crate::Hardening;

/// Runs the plugin and checks the laws that the host proves.
#[track_caller]
fn run(config: &Value, pod: &Value) -> Run {
    run_for(config, &Submitted::default(), pod)
}

#[track_caller]
fn run_for(config: &Value, submitted: &Submitted, pod: &Value) -> Run {
    testing::check_laws::<Hardening>(config, submitted, pod);
    testing::run::<Hardening>(config, submitted, pod)
}

/// A pod of one container, with these fields in its `spec`.
fn pod_with(spec: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "app", "image": "app:1"}]},
    });
    merge(&mut pod["spec"], spec);
    pod
}

/// A pod of one container, with these fields in that container's `securityContext`.
fn pod_of(context: Value) -> Value {
    pod_with(json!({"containers": [{"name": "app", "image": "app:1", "securityContext": context}]}))
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

/// The paths that a run wrote, in order.
fn written(run: &Run) -> Vec<&str> {
    run.writes.iter().map(|write| write.path.as_str()).collect()
}

#[track_caller]
fn check_written(config: Value, pod: Value, expected: &[&str]) {
    let run = run(&config, &pod);
    assert_eq!(run.result, Ok(()));
    assert_eq!(written(&run), expected);
}

/// The text of a denial.
#[track_caller]
fn denial(run: &Run) -> &str {
    match &run.result {
        Err(Rejection::Denied(message)) => message,
        other => panic!("expected a denial, got {other:?}"),
    }
}

/// Checks that each of these is in the denial of a pod.
#[track_caller]
fn check_denied(config: Value, pod: Value, reasons: &[&str]) {
    let run = run(&config, &pod);
    let message = denial(&run);
    for reason in reasons {
        assert!(message.contains(reason), "{reason:?} is not in {message:?}");
    }
    assert_eq!(
        message.matches("; ").count() + 1,
        reasons.len(),
        "other reasons in {message:?}"
    );
}

#[track_caller]
fn check_noted(run: &Run, expected: &[&str]) {
    assert_eq!(run.remarks(), expected);
}

//! Each fact about injection, on small pods, through the code that the host uses for paths and grants.

mod additions;
mod conflicts;
mod decision;
mod grants;
mod life_cycle;
mod placement;
mod security;
mod validation;
mod volumes;

use podloom_plugin_sdk::Rejection;
use podloom_plugin_sdk::serde_json::{Value, json};
use podloom_plugin_sdk::testing::{self, Run, Submitted};

use crate::Plugin;

const RECORD: &str = "/metadata/annotations/sidecar.podloom.dev~1injected";

/// A configuration with one native sidecar.
fn proxy() -> Value {
    json!({"containers": [{"container": container("proxy")}]})
}

fn container(name: &str) -> Value {
    json!({"name": name, "image": "registry.example/proxy:1"})
}

/// A pod with one container, `app`.
fn pod() -> Value {
    json!({"metadata": {"name": "app"}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}})
}

/// `value` with more fields in the object at `path`, objects merged.
fn with(mut value: Value, path: &str, more: Value) -> Value {
    fn merge(into: &mut Value, more: Value) {
        match (into, more) {
            (Value::Object(into), Value::Object(more)) => {
                for (key, value) in more {
                    merge(into.entry(key).or_insert(Value::Null), value);
                }
            }
            (into, more) => *into = more,
        }
    }
    merge(value.pointer_mut(path).unwrap(), more);
    value
}

/// Runs the plugin, which must also be deterministic and idempotent.
#[track_caller]
fn run(config: &Value, pod: &Value) -> Run {
    run_for(config, &Submitted::default(), pod)
}

#[track_caller]
fn run_for(config: &Value, submitted: &Submitted, pod: &Value) -> Run {
    testing::check_laws::<Plugin>(config, submitted, pod);
    testing::run::<Plugin>(config, submitted, pod)
}

/// The pod after a run that must pass.
#[track_caller]
fn inject(config: &Value, pod: &Value) -> Value {
    let run = run(config, pod);
    assert_eq!(run.result, Ok(()));
    run.pod
}

#[track_caller]
fn check_denied(config: &Value, pod: &Value, reasons: &[&str]) {
    let run = run(config, pod);
    let Err(Rejection::Denied(message)) = run.result else {
        panic!("not denied: {:?}", run.result);
    };
    assert_eq!(message.split("; ").collect::<Vec<_>>(), reasons);
}

#[track_caller]
fn check_note(run: &Run, note: &str) {
    assert!(
        run.remarks().iter().any(|found| found.contains(note)),
        "no note {note:?} in {:?}",
        run.remarks()
    );
}

fn names(pod: &Value, list: &str) -> Vec<String> {
    let list = pod["spec"][list].as_array().cloned().unwrap_or_default();
    list.iter()
        .map(|element| element["name"].as_str().unwrap().to_owned())
        .collect()
}

fn is_injected(pod: &Value) -> bool {
    names(pod, "initContainers").contains(&"proxy".to_owned())
}

/// The paths that the annotation lists.
fn record(pod: &Value) -> Vec<String> {
    let Some(text) = pod.pointer(RECORD).and_then(Value::as_str) else {
        return Vec::new();
    };
    let record: Value = podloom_plugin_sdk::serde_json::from_str(text).unwrap();
    record["paths"]
        .as_array()
        .unwrap()
        .iter()
        .map(|path| path.as_str().unwrap().to_owned())
        .collect()
}

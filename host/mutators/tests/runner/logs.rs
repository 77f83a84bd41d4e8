//! Log lines: each names the plugin and the pod, whichever way the plugin is called.

use std::io;
use std::sync::{Arc, Mutex};

use podloom_mutation::PodRequest;
use podloom_mutators::{Bundle, Chain, Engine, EngineOptions};
use serde_json::{Value, json};
use tracing::Level;

use crate::support::{chain_of, chain_of_components, directory, mutate, plugin, pod, request};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What `work` logs on this thread, each line as an object without its level and spans.
fn logged(work: impl FnOnce()) -> Vec<Value> {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_max_level(Level::TRACE)
        .with_writer(move || writer.clone())
        .without_time()
        .finish();
    tracing::subscriber::with_default(subscriber, work);
    let text = lines.0.lock().expect("nobody panics");
    let lines = text
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty());
    let parsed = lines.map(|line| {
        let mut line: Value = serde_json::from_slice(line).expect("a line is JSON");
        let fields = line.as_object_mut().expect("a line is an object");
        fields.retain(|key, _| !["level", "span", "spans"].contains(&key.as_str()));
        line
    });
    parsed.collect()
}

/// Those of them that plugins wrote.
fn logged_by_plugins(work: impl FnOnce()) -> Vec<Value> {
    let mut lines = logged(work);
    lines.retain_mut(|line| {
        let target = line.as_object_mut().and_then(|line| line.remove("target"));
        target == Some(json!("podloom::plugin"))
    });
    lines
}

/// A chain of the plugin that logs, called as the core module that it is, and as a component.
fn both_ways() -> [Chain; 2] {
    let plugins = [("logs", "")];
    [chain_of(&plugins), chain_of_components(&plugins)]
}

#[test]
fn a_line_of_a_plugin_names_the_plugin_and_the_pod() {
    for chain in both_ways() {
        let lines = logged_by_plugins(|| drop(mutate(&chain).expect("a pod")));
        assert_eq!(
            lines,
            [json!({
                "message": "looking at the pod",
                "plugin": "logs",
                "kind": "Pod",
                "namespace": "team-a",
                "pod": "pod",
            })]
        );
    }
}

/// Anybody who posts pods can make plugins write. Who debugs one sees all.
#[test]
fn one_peer_causes_few_lines() {
    let options = EngineOptions {
        lines: Some(podloom_turns::Lines::default()),
        ..EngineOptions::default()
    };
    let engine = Engine::new(&options).expect("an engine");
    let plugins = "\n- { name: logs, file: logs.wasm, allow: [/metadata/labels] }\n- { name: trap, file: trap.wasm, failurePolicy: Ignore, allow: [/metadata/labels] }";
    let files = ["logs", "trap"].map(|name| (format!("{name}.wasm"), plugin(name)));
    let files = files.each_ref().map(|(name, file)| (&**name, &**file));
    let bundle = Bundle::read(directory(plugins, &files).path()).expect("a bundle");
    let chain = Chain::load(&engine, &bundle).expect("a chain");
    let lines = logged(|| {
        for number in 0..200 {
            let request = PodRequest {
                namespace: format!("invented-{number}"),
                peer: Some([10, 0, 0, 66].into()),
                ..request()
            };
            chain.mutate(pod(), request).expect("a pod");
        }
    });
    let count = |message: &str| {
        let such = lines.iter().filter(|line| line["message"] == message);
        such.count()
    };
    for message in ["looking at the pod", "plugin failed and was ignored"] {
        assert_eq!(count(message), 100, "{message}");
    }
    assert_eq!(count("plugin call failed"), 200);
}

/// The API server has yet to choose it.
#[test]
fn a_name_that_is_not_known_is_left_out() {
    let chain = chain_of(&[("logs", "")]);
    let request = PodRequest {
        name: String::new(),
        ..request()
    };
    let lines = logged_by_plugins(|| drop(chain.mutate(pod(), request).expect("a pod")));
    assert_eq!(lines[0].get("pod"), None);
    assert_eq!(lines[0]["namespace"], "team-a");
}

#[test]
fn a_line_while_a_chain_is_proved_names_the_sample_pod() {
    for chain in both_ways() {
        let mut lines = logged_by_plugins(|| assert_eq!(chain.prove(), []));
        lines.dedup();
        let line = |sample: &str| json!({ "message": "looking at the pod", "plugin": "logs", "sample_pod": sample });
        assert_eq!(lines, ["minimal", "complete", "privileged"].map(line));
    }
}

#[test]
fn a_line_while_a_plugin_is_loaded_names_no_pod() {
    let line = json!({ "message": "being loaded", "plugin": "logs" });
    let lines = logged_by_plugins(|| drop(both_ways()));
    assert_eq!(lines, [line.clone(), line]);
}

#[test]
fn each_line_of_the_chain_names_the_plugin_and_the_pod() {
    let chain = chain_of(&[
        ("good", ""),
        ("flood-of-words", "limits: { timeout: 10s }"),
        ("trap", "failurePolicy: Ignore"),
        ("deny", "match: { kinds: [Browser] }"),
    ]);
    let lines = logged(|| drop(mutate(&chain).expect("a pod")));
    let messages = [
        "plugin wrote",
        "plugin run",
        "plugin call failed",
        "plugin failed and was ignored",
        "further log lines of this call are dropped",
    ];
    for message in messages {
        assert!(
            lines.iter().any(|line| line["message"] == message),
            "{message}"
        );
    }
    let (mut skipped, ours) = (0, ["podloom_mutators", "podloom::plugin"]);
    for line in &lines {
        let target = line["target"].as_str().expect("a target");
        if ours.iter().any(|ours| target.starts_with(ours)) {
            assert!(line["plugin"].is_string(), "{line}");
            assert_eq!(
                (&line["namespace"], &line["pod"]),
                (&json!("team-a"), &json!("pod"))
            );
            skipped += usize::from(line["outcome"] == "skipped");
        }
    }
    assert_eq!(skipped, 1);
}

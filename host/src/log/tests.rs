use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex};

use http::Response;
use kube::client::Body;
use serde_json::{Value, json};
use tracing_subscriber::filter::{Targets, filter_fn};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;

use super::{JsonFields, JsonLines, may_be_logged, quieted};

#[track_caller]
fn check(asked: &str, expected: &[&str]) {
    let targets = quieted(asked.parse::<Targets>().expect("a filter"));
    let mut shown: Vec<String> = targets.to_string().split(',').map(str::to_owned).collect();
    shown.sort();
    assert_eq!(shown, expected, "{asked}");
}

#[test]
fn verbose_libraries_log_less_unless_they_are_named() {
    check("error", &["error"]);
    // A watch that fails is logged by us.
    check("warn", &["kube_runtime::watcher=error", "warn"]);
    check("off", &["off"]);
    let all = [
        "cranelift=warn",
        "hyper=warn",
        "hyper_util=warn",
        "info",
        "kube_client=warn",
        "kube_runtime::watcher=error",
        "tower=warn",
        "wasmtime=warn",
    ];
    check("info", &all);
    check(
        "info,kube_client::client=debug",
        &[
            "cranelift=warn",
            "hyper=warn",
            "hyper_util=warn",
            "info",
            "kube_client::client=debug",
            "kube_runtime::watcher=error",
            "tower=warn",
            "wasmtime=warn",
        ],
    );
}

/// Collects what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// Returns what is logged of answers with a secret in them, at the level trace.
async fn logged(filter: fn(&tracing::Metadata<'_>) -> bool) -> String {
    let log = Log::default();
    let writer = log.clone();
    let lines = fmt::layer().with_writer(move || writer.clone());
    let subscriber = tracing_subscriber::registry()
        .with(quieted("trace,kube_client=trace".parse().unwrap()))
        .with(filter_fn(filter))
        .with(lines);
    let _logging = tracing::subscriber::set_default(subscriber);
    let asked = |code: u16| async move {
        let answer = tower::service_fn(move |_: http::Request<Body>| async move {
            let body = Body::from(br#"{"data":"hunter2"}"#.to_vec());
            let answer = Response::builder().status(code).body(body).unwrap();
            Ok::<_, Infallible>(answer)
        });
        let client = kube::Client::new(answer, "default");
        let request = http::Request::get("/").body(Vec::new()).unwrap();
        client.request::<Vec<String>>(request).await.unwrap_err();
    };
    asked(200).await;
    asked(422).await;
    tracing::trace!("the end");
    log.text()
}

#[tokio::test]
async fn what_kube_logs_of_answers_is_not_logged_whatever_the_filter_says() {
    let all = logged(|_| true).await;
    assert!(all.contains("hunter2"), "kube logs none: {all}");
    let ours = logged(may_be_logged).await;
    assert!(ours.contains("the end"), "{ours}");
    assert!(!ours.contains("hunter2"), "{ours}");
}

#[test]
fn a_line_of_json_has_the_names_of_traces() {
    let log = Log::default();
    let writer = log.clone();
    let lines = fmt::layer()
        .fmt_fields(JsonFields::new())
        .event_format(JsonLines)
        .with_writer(move || writer.clone());
    let subscriber = tracing_subscriber::registry().with(lines);
    tracing::subscriber::with_default(subscriber, || {
        let _span =
            tracing::info_span!("plugin call", plugin = "labels", namespace = "a").entered();
        let (pod, none) = ("b", None::<&str>);
        tracing::warn!(namespace = "a", pod, none, writes = 3, error.type = "trap", error = %"it\ncrashed", "it \"failed\"");
        tracing::info!(target: "kube", namespace = "c", "of a library");
    });
    let text = log.text();
    let mut lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for line in &mut lines {
        let time = line.as_object_mut().unwrap().remove("timestamp").unwrap();
        assert!(time.as_str().unwrap().ends_with('Z'), "{time}");
    }
    let spans =
        json!([{ "name": "plugin call", "podloom.plugin": "labels", "k8s.namespace.name": "a" }]);
    assert_eq!(
        lines,
        [
            json!({
                "level": "WARN",
                "message": "it \"failed\"",
                "target": "podloom::log::tests",
                "k8s.namespace.name": "a",
                "k8s.pod.name": "b",
                "podloom.writes": 3,
                "error.type": "trap",
                "exception.message": "it\ncrashed",
                "spans": spans,
            }),
            json!({
                "level": "INFO",
                "message": "of a library",
                "target": "kube",
                "namespace": "c",
                "spans": spans,
            }),
        ]
    );
}

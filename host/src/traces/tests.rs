mod sending;

use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, Receiver};
use tracing::subscriber::with_default;
use tracing::{info_span, trace, trace_span};
use tracing_subscriber::layer::SubscriberExt;

use super::Collect;
use super::Step;
use super::endpoint;
use super::export::{Rejected, body, rejected};
use podloom_engine::TRACES;
use podloom_engine::sent::SendMetrics;

const UID: &str = "0f5e8d2a-7c1b-4a3e-9d10-2b6c4e8fa001";
const TRACE: &str = "0f5e8d2a7c1b4a3e9d102b6c4e8fa001";

/// The steps of some work, in the order in which they ended.
fn steps(work: impl FnOnce()) -> Vec<Step> {
    let (sender, mut queue) = mpsc::channel(100);
    let collect = Collect::new(sender, SendMetrics::default());
    let subscriber = tracing_subscriber::registry().with(collect.layer());
    with_default(subscriber, work);
    drain(&mut queue)
}

fn drain(queue: &mut Receiver<Step>) -> Vec<Step> {
    std::iter::from_fn(|| queue.try_recv().ok()).collect()
}

/// The metrics, as they are served.
fn shown(metrics: &SendMetrics) -> String {
    let mut registry = Registry::default();
    registry.register("spans", "Spans", metrics.clone());
    let mut text = String::new();
    encode(&mut text, &registry).expect("encoded");
    text
}

fn names(steps: &[Step]) -> Vec<&str> {
    steps.iter().map(|step| step.name.as_str()).collect()
}

#[test]
fn steps_are_in_the_trace_of_what_they_are_about() {
    let steps = steps(|| {
        let pass = trace_span!(target: TRACES, "reconcile", trace = UID, name = "a");
        let _pass = pass.enter();
        // A span of something else lies between them.
        let _other = info_span!("other").entered();
        let _step = trace_span!(target: TRACES, "act", step = "create pod").entered();
        trace!(target: TRACES, step = "plugin labels", seconds = 2.0, ago = 1.0, writes = 3);
        trace!("a line of the log");
    });
    assert_eq!(names(&steps), ["plugin labels", "create pod", "reconcile"]);
    let [plugin, create, pass] = &steps[..] else {
        unreachable!("there are three");
    };
    assert!(
        steps
            .iter()
            .all(|step| format!("{:032x}", step.trace) == TRACE)
    );
    assert_eq!(plugin.parent, Some(create.id));
    assert_eq!(create.parent, Some(pass.id));
    assert_eq!(pass.parent, None);
    let length = plugin.end.duration_since(plugin.start);
    assert_eq!(length.ok(), Some(Duration::from_secs(2)));
    assert_eq!(plugin.fields, [("writes", json!(3))]);
    assert_eq!(pass.fields, [("name", json!("a"))]);
    // Begin and length are measured by two clocks, one after the other.
    let slack = Duration::from_secs(1);
    assert!(create.start + slack >= pass.start && create.end <= pass.end + slack);
}

#[test]
fn a_long_text_is_cut() {
    let steps = steps(|| {
        let namespace = "ä".repeat(4 << 20);
        let step = namespace.as_str();
        trace!(target: TRACES, trace = UID, step, namespace = step, other = ?step);
    });
    let [step] = &steps[..] else {
        unreachable!("there is one");
    };
    assert_eq!(step.name, "ä".repeat(256));
    for (name, value) in &step.fields {
        let Value::String(text) = value else {
            unreachable!("{name} is a text");
        };
        assert!(text.len() <= 512 && text.contains("ää"), "{name}");
    }
    assert_eq!(step.fields.len(), 2);
}

#[test]
fn what_did_nothing_and_what_belongs_to_nothing_is_no_step() {
    let steps = steps(|| {
        drop(trace_span!(target: TRACES, "reconcile", trace = UID).entered());
        drop(trace_span!(target: TRACES, "reconcile", trace = "no UID").entered());
        drop(trace_span!(target: TRACES, "chain").entered());
        trace!(target: TRACES, step = "plugin labels", seconds = 1.0);
        let failed =
            trace_span!(target: TRACES, "failed", trace = UID, error.type = tracing::field::Empty);
        failed.record("error.type", "ReadPod");
    });
    assert_eq!(names(&steps), ["failed"]);
    assert_eq!(steps[0].error.as_deref(), Some("ReadPod"));
}

#[test]
fn what_does_not_fit_into_the_queue_is_dropped() {
    let (sender, mut queue) = mpsc::channel(2);
    let metrics = SendMetrics::default();
    let collect = Collect::new(sender, metrics.clone());
    let subscriber = tracing_subscriber::registry().with(collect.layer());
    with_default(subscriber, || {
        for _ in 0..5 {
            trace!(target: TRACES, trace = UID, step = "session", seconds = 1.0);
        }
    });
    assert_eq!(drain(&mut queue).len(), 2);
    let text = shown(&metrics);
    assert!(text.contains("{outcome=\"dropped\"} 3\n"), "{text}");
}

#[test]
fn a_receiver_is_a_url_with_http() {
    let path = |text: &str| endpoint(text).map(|it| it.to_string());
    for (text, expected) in [
        ("http://collector:4318", "http://collector:4318/v1/traces"),
        ("http://collector:4318/", "http://collector:4318/v1/traces"),
        ("https://collector", "https://collector/v1/traces"),
        ("http://[::1]:1/otlp", "http://[::1]:1/otlp/v1/traces"),
    ] {
        assert_eq!(path(text).as_deref(), Ok(expected));
    }
    for (text, reason) in [
        ("ftp://collector", "it must be a URL with http"),
        ("collector:4318", "it must be a URL with http"),
        (
            "http://user:password@collector",
            "it must not have a password",
        ),
        ("http://collector?key=1", "without a query"),
        ("http://a b", "it is no URL"),
    ] {
        let error = path(text).expect_err(text);
        assert!(error.contains(reason), "{text}: {error}");
        assert!(error.ends_with("for example http://collector.monitoring:4318"));
    }
}

#[test]
fn numbers_and_ids_are_texts_as_the_format_wants() {
    let steps = steps(|| {
        trace!(target: TRACES, trace = UID, step = "session", writes = 7, error.type = "PodLost");
    });
    let body: Value = serde_json::from_slice(&body(&steps, Some("podloom-0"))).expect("JSON");
    let resource = &body["resourceSpans"][0];
    let value = json!({ "stringValue": "podloom-0" });
    let attributes = &resource["resource"]["attributes"];
    for key in ["service.instance.id", "k8s.pod.name"] {
        let expected = json!({ "key": key, "value": value });
        assert!(
            attributes
                .as_array()
                .is_some_and(|it| it.contains(&expected))
        );
    }
    let span = &resource["scopeSpans"][0]["spans"][0];
    assert_eq!(span["traceId"], TRACE);
    assert_eq!(span["spanId"].as_str().map(str::len), Some(16));
    assert_eq!(span["attributes"][0]["key"], "podloom.writes");
    assert_eq!(span["attributes"][0]["value"]["intValue"], "7");
    assert_eq!(span["attributes"][1]["key"], "error.type");
    assert_eq!(span["status"]["message"], "PodLost");
    assert!(
        span["endTimeUnixNano"]
            .as_str()
            .is_some_and(|it| it.len() == 19)
    );
}

#[test]
fn an_answer_says_what_was_rejected() {
    for (answer, spans, why) in [
        ("", 0, ""),
        ("{}", 0, ""),
        ("\u{a}\u{2}\u{8}\u{7}", 0, ""),
        (r#"{"partialSuccess":{}}"#, 0, ""),
        (r#"{"partialSuccess":{"rejectedSpans":"7"}}"#, 7, ""),
        (
            r#"{"partialSuccess":{"rejectedSpans":7,"errorMessage":"too\nold"}}"#,
            7,
            "tooold",
        ),
        (r#"{"partialSuccess":{"rejectedSpans":-7}}"#, 0, ""),
        (
            r#"{"partialSuccess":{"errorMessage":"slow down"}}"#,
            0,
            "slow down",
        ),
    ] {
        let why = why.to_owned();
        assert_eq!(
            rejected(answer.as_bytes()),
            Rejected { spans, why },
            "{answer}"
        );
    }
}

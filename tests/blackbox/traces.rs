//! Traces of sessions and reviews, as a receiver of OpenTelemetry gets them. They are read by code of OpenTelemetry, not by ours.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use kube::api::PostParams;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use podloom_tests::doubles::{Double, HangPoint, ReceivedRequest, Sink};
use podloom_tests::webhook::{Route, Webhook, plain_pod};
use podloom_tests::{
    Bundle, Cluster, Operator, Scene, blackbox_on, eventually, free_address, standard,
};
use serde_json::json;
use tempfile::NamedTempFile;

const SECRET: &str = "hunter2-of-the-session";

fn read(request: &ReceivedRequest) -> ExportTraceServiceRequest {
    assert_eq!(request.path, "/v1/traces");
    assert_eq!(request.headers["content-type"], "application/json");
    assert_eq!(request.length, request.body.len(), "it is kept whole");
    serde_json::from_str(&request.body).unwrap()
}

/// All spans that a receiver got, by their trace.
fn traces(receiver: &Sink) -> BTreeMap<String, Vec<Span>> {
    let mut traces: BTreeMap<String, Vec<Span>> = BTreeMap::new();
    for request in receiver.received().requests {
        let resources = read(&request).resource_spans.into_iter();
        for span in resources
            .flat_map(|it| it.scope_spans)
            .flat_map(|it| it.spans)
        {
            traces.entry(hex(&span.trace_id)).or_default().push(span);
        }
    }
    traces
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Waits until the trace of a UID has spans of these names, and returns all of its spans.
async fn trace_of(receiver: &Sink, uid: &str, names: &[&str]) -> Vec<Span> {
    eventually(&format!("the trace {uid} has {names:?}"), async || {
        let trace = traces(receiver).remove(&uid.replace('-', ""));
        let trace = trace.unwrap_or_default();
        let found: BTreeSet<&str> = trace.iter().map(|span| span.name.as_str()).collect();
        let is_whole = names.iter().all(|name| found.contains(name));
        is_whole
            .then(|| trace.clone())
            .ok_or_else(|| format!("{found:?}"))
    })
    .await
}

fn named<'t>(trace: &'t [Span], name: &str) -> &'t Span {
    trace.iter().find(|span| span.name == name).unwrap()
}

/// The names of the spans around one, from the inside to the outside. Each must be there, and last as long at least.
fn around<'t>(trace: &'t [Span], span: &Span) -> Vec<&'t str> {
    let mut names = Vec::new();
    let mut inner = span;
    while !inner.parent_span_id.is_empty() {
        let outer = trace.iter().find(|it| it.span_id == inner.parent_span_id);
        let outer = outer.unwrap();
        assert!(outer.start_time_unix_nano <= inner.start_time_unix_nano + SLACK);
        assert!(outer.end_time_unix_nano + SLACK >= inner.end_time_unix_nano);
        names.push(outer.name.as_str());
        inner = outer;
    }
    names
}

/// The lengths of plugins' calls are added up, without what lies between them.
const SLACK: u64 = 5_000_000;

fn attribute(span: &Span, key: &str) -> String {
    let found = span.attributes.iter().find(|it| it.key == key);
    format!("{:?}", found.and_then(|it| it.value.clone()))
}

async fn operator(scene: &Scene, receiver: &Sink, plugins: &str) -> Operator {
    let endpoint = format!("http://{}", receiver.address());
    let arguments = ["--plugins", plugins, "--otlp-endpoint", &endpoint];
    scene.operator(&arguments).await
}

#[test]
fn a_session_is_one_trace_from_its_configuration_until_it_runs() {
    blackbox_on(Cluster::without_operator, "traces-session", async |scene| {
        let receiver = Double::sink(&[]);
        let bundle = standard();
        let _operator = operator(&scene, &receiver, bundle.to_str().unwrap()).await;
        scene.behaviours().await;
        let options = json!({ "containers": { "browser": { "env": { "PASSWORD": SECRET } } } });
        let metadata = json!({ "annotations": { "selenosis.io/options": options.to_string() } });
        let browser = scene.browser_with("b", "running", metadata).await;
        let names = [
            "config",
            "render",
            "chain",
            "plugin labels",
            "plugin hardening",
            "create pod",
            "reconcile",
            "session starts",
            "pod starts",
        ];
        let trace = trace_of(&receiver, &browser.uid().unwrap(), &names).await;
        for name in ["config", "render"] {
            assert_eq!(around(&trace, named(&trace, name)), ["reconcile"]);
        }
        let plugin = named(&trace, "plugin hardening");
        assert_eq!(around(&trace, plugin), ["chain", "create pod", "reconcile"]);
        assert!(attribute(plugin, "podloom.outcome").contains("\"mutated\""));
        let pass = named(&trace, "reconcile");
        assert!(
            attribute(pass, "podloom.name").contains("\"b\""),
            "{pass:?}"
        );
        let start = named(&trace, "session starts");
        assert!(start.end_time_unix_nano > start.start_time_unix_nano);
        assert!(start.end_time_unix_nano >= plugin.end_time_unix_nano);
        let pod = named(&trace, "pod starts");
        assert!(attribute(pod, "k8s.pod.name").contains("\"b\""), "{pod:?}");
        assert!(attribute(pod, "k8s.namespace.name").contains(&scene.namespace));
        for span in &trace {
            around(&trace, span);
        }
        let ids: BTreeSet<&[u8]> = trace.iter().map(|span| span.span_id.as_slice()).collect();
        assert_eq!(ids.len(), trace.len());
        for request in receiver.received().requests {
            assert!(!request.body.contains(SECRET), "{}", request.body);
        }
        // Passes that do nothing leave no span.
        let passes = trace.iter().filter(|span| span.name == "reconcile");
        let with_steps = passes.filter(|pass| {
            let mut steps = trace.iter();
            steps.any(|step| step.parent_span_id == pass.span_id)
        });
        let passes = trace.iter().filter(|span| span.name == "reconcile").count();
        assert_eq!(with_steps.count(), passes);
    });
}

#[test]
fn a_failed_plugin_and_a_failed_session_are_marked() {
    blackbox_on(Cluster::without_operator, "traces-failed", async |scene| {
        let receiver = Double::sink(&[]);
        let breaks = "[{ name: breaks, file: breaks.wasm, allow: [/metadata/labels] }]";
        let bundle = Bundle::of(breaks);
        let _operator = operator(&scene, &receiver, bundle.path().to_str().unwrap()).await;
        scene.behaviours().await;
        let metadata = json!({ "labels": { "break": "please" } });
        let waits = scene.browser_with("waits", "running", metadata).await;
        let trace = trace_of(&receiver, &waits.uid().unwrap(), &["plugin breaks"]).await;
        let status = named(&trace, "plugin breaks").status.clone().unwrap();
        assert_eq!(
            (status.code(), status.message.as_str()),
            (StatusCode::Error, "trap")
        );
        let dies = scene.browser("dies", "oom-killed").await;
        let trace = trace_of(&receiver, &dies.uid().unwrap(), &["session"]).await;
        let status = named(&trace, "session").status.clone().unwrap();
        assert_eq!(
            (status.code(), status.message.as_str()),
            (StatusCode::Error, "PodFailed")
        );
    });
}

#[test]
fn a_review_is_a_trace_with_its_plugins() {
    blackbox_on(Cluster::without_operator, "traces-review", async |scene| {
        let receiver = Double::sink(&[]);
        let endpoint = format!("http://{}", receiver.address());
        let webhook = Webhook::new(&scene, Route::Url);
        let arguments = ["--otlp-endpoint", &endpoint];
        let _operator = webhook.operator(&standard(), &arguments).await;
        receiver.forget();
        let pod = plain_pod("reviewed");
        scene
            .pods()
            .create(&PostParams::default(), &pod)
            .await
            .unwrap();
        let trace = eventually("the review comes", async || {
            let mut traces = traces(&receiver).into_values();
            let trace = traces.find(|it| it.iter().any(|span| span.name == "review"));
            trace.ok_or_else(|| "not yet".to_owned())
        })
        .await;
        let plugin = named(&trace, "plugin labels");
        assert_eq!(around(&trace, plugin), ["chain", "review"]);
        let review = named(&trace, "review");
        assert!(attribute(review, "podloom.endpoint").contains("\"mutate/pods\""));
        assert!(attribute(review, "podloom.outcome").contains("\"mutated\""));
    });
}

#[test]
fn a_receiver_that_is_down_or_hangs_delays_nothing() {
    blackbox_on(Cluster::without_operator, "traces-down", async |scene| {
        scene.behaviours().await;
        let seen = scene.watch_browsers().await;
        let hanging = Double::hanging(HangPoint::Answer);
        for (name, address) in [("down", free_address()), ("hangs", hanging.address)] {
            let endpoint = format!("http://{address}");
            let mut operator = scene.operator(&["--otlp-endpoint", &endpoint]).await;
            scene.browser(name, "running").await;
            seen.until_is(name, "runs", |browser| {
                let status = browser.status.as_ref();
                status.is_some_and(|it| it.phase == Some(podloom_api::Phase::Running))
            })
            .await;
            let failed = "podloom_trace_spans_total{outcome=\"failed\"}";
            eventually("spans are counted as failed", async || {
                let failed = operator.metric(failed);
                (failed > 0.0).then_some(()).ok_or(failed.to_string())
            })
            .await;
            let said = operator.logged(&["the receiver does not take traces"]);
            assert_eq!(said.len(), 1, "{said:#?}");
            let asked = std::time::Instant::now();
            operator.signal(podloom_tests::Signal::Terminate);
            assert!(operator.ended().await.success());
            assert!(asked.elapsed() < std::time::Duration::from_secs(10));
        }
    });
}

#[test]
fn without_a_receiver_there_is_nothing_about_traces() {
    blackbox_on(Cluster::without_operator, "traces-off", async |scene| {
        let operator = scene.operator(&[]).await;
        let (_, metrics) = operator.get("/metrics").unwrap();
        assert!(!metrics.contains("podloom_trace"), "{metrics}");
    });
}

#[test]
fn traces_go_over_tls_to_a_receiver_whose_authority_is_trusted() {
    blackbox_on(Cluster::without_operator, "traces-tls", async |scene| {
        scene.behaviours().await;
        let authority = NamedTempFile::new().unwrap();
        let receiver = Double::tls(authority.path(), &[]);
        let endpoint = format!("https://{}", receiver.address());
        let arguments = [
            "--namespace",
            &scene.namespace,
            "--otlp-endpoint",
            &endpoint,
        ];
        let (cluster, account) = (&scene.cluster, scene.cluster.operator_kubeconfig());
        let distrusting = Operator::spawn(cluster, account, &arguments);
        distrusting.ready().await;
        scene.browser("unseen", "running").await;
        eventually("the log says why", async || {
            let why = distrusting.logged(&["the receiver does not take traces"]);
            (why.len() == 1)
                .then_some(())
                .ok_or_else(|| distrusting.tail(""))
        })
        .await;
        assert!(receiver.received().requests.is_empty());
        drop(distrusting);
        let authority = Some(authority.path());
        let operator = Operator::spawn_trusting(cluster, account, &arguments, authority);
        operator.ready().await;
        let browser = scene.browser("seen", "running").await;
        trace_of(&receiver, &browser.uid().unwrap(), &["reconcile"]).await;
    });
}

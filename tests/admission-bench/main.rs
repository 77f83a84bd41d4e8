//! Measures what the admission webhook costs a cluster: the same pods are created on a real control plane, first without it, then
//! with it; or with several mutations, and with policies of the API server that do the same. How fast the webhook alone is shows
//! `webhook-bench`; here the API server has its share.
#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that cannot go on ends with the reason"
)]

mod mutations;
mod policies;
mod rollout;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use podloom_control_plane::{ControlPlane, Program};
use podloom_tests::usage::usage;
use podloom_tests::webhook::{Route, Webhook};
use podloom_tests::{Cluster, Scene};
use serde_json::{Map, Value, json};
use tokio::time::sleep;

/// Events and the API server's own work after the last pod.
const SETTLE: Duration = Duration::from_secs(5);

/// Measure pods that are created through the API server, without the admission webhook and with it: pods per second, latency,
/// processor time and memory. PODLOOM_BLACKBOX_BINARY names the operator's binary.
#[derive(Parser)]
#[command(name = "admission-bench")]
struct Arguments {
    /// How many pods to create, without the webhook and again with it [default: 2000; 1000 for each row of --policies].
    #[arg(long)]
    pods: Option<u32>,
    /// How many are created at once.
    #[arg(long, default_value_t = 16)]
    concurrency: usize,
    /// Compare a chain with MutatingAdmissionPolicies that do the same: several mutations, and up to 50 rules.
    #[arg(long)]
    policies: bool,
    /// Measure instead what it costs to judge a rollout, while pods come and go.
    #[arg(long, conflicts_with = "policies")]
    rollout: bool,
    /// The operator's binary; PODLOOM_BLACKBOX_BINARY must name the same.
    #[arg(long, value_name = "FILE")]
    podloom: PathBuf,
    /// The directory of plugins and their chain.
    #[arg(long, value_name = "DIR")]
    plugins: PathBuf,
    /// Also write the figures to this file, as one JSON object.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The pod of a browser, of 3 KB.
const POD: &str = include_str!("../../host/mutators/benches/pod.json");

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    let measured = match (arguments.policies, arguments.rollout) {
        (true, _) => policies::measure(arguments.pods.unwrap_or(1000), arguments.concurrency).await,
        (_, true) => {
            let pods = arguments.pods.unwrap_or(2000);
            rollout::measure(&arguments.plugins, pods, arguments.concurrency).await
        }
        _ => with_and_without(&arguments).await,
    };
    if let Some(path) = &arguments.json {
        fs::write(path, format!("{measured:#}\n")).unwrap();
    }
}

/// Measures the chain of the bundle, and returns what is to be written as JSON.
async fn with_and_without(arguments: &Arguments) -> Value {
    let load = (arguments.pods.unwrap_or(2000), arguments.concurrency);
    let cluster = Arc::new(Cluster::installed());
    let plain = Scene::new(Arc::clone(&cluster), "without").await;
    let without = create(load, &plain, None).await;
    let scene = plain.beside("with", json!({})).await;
    let webhook = Webhook::new(&scene, Route::Url);
    let operator = webhook.operator(&arguments.plugins, &[]).await;
    let with = create(load, &scene, Some(operator.id())).await;
    let requests = cluster.requests_of(&webhook.user).len();
    print(&[("without", &without), ("with", &with)]);
    eprintln!("requests of the operator to the API server: {requests}");
    let both = [("without", &without), ("with", &with)].into_iter();
    let all = both.flat_map(|(when, rows)| {
        rows.iter()
            .map(move |(key, value)| (format!("{key}_{when}"), json!(value)))
    });
    all.collect::<Map<_, _>>().into()
}

/// What was measured: keys and values.
type Rows = Vec<(&'static str, f64)>;

/// Creates so many pods in a namespace, so many at once. Nobody schedules or runs them, so nothing else uses the processors.
async fn create((pods, concurrency): (u32, usize), scene: &Scene, operator: Option<u32>) -> Rows {
    let api = scene.pods();
    let plane = &scene.cluster.plane;
    eprintln!("{pods} pods in the namespace {}", scene.namespace);
    let programs = || [Program::ApiServer, Program::Etcd].map(|program| cpu(pid(plane, program)));
    let ours = || operator.map(cpu).unwrap_or_default();
    let (before, ours_before) = (programs(), ours());
    let begun = Instant::now();
    let mut latencies: Vec<Duration> = stream::iter(0..pods)
        .map(|number| one(&api, pod(number)))
        .buffer_unordered(concurrency)
        .try_collect()
        .await
        .unwrap();
    let took = begun.elapsed();
    sleep(SETTLE).await;
    latencies.sort_unstable();
    let at = |percent: usize| {
        let index = latencies.len().saturating_sub(1) * percent / 100;
        let latency = latencies.get(index).copied().unwrap_or_default();
        latency.as_secs_f64() * 1000.0
    };
    let each = |time: Duration| time.as_secs_f64() * 1000.0 / f64::from(pods);
    let [api_server, etcd] = programs();
    let [api_server_before, etcd_before] = before;
    let mut rows = vec![
        ("pods_per_second", f64::from(pods) / took.as_secs_f64()),
        ("p50_ms", at(50)),
        ("p99_ms", at(99)),
        (
            "api_server_cpu_ms_per_pod",
            each(api_server - api_server_before),
        ),
        ("etcd_cpu_ms_per_pod", each(etcd - etcd_before)),
        ("api_server_mib", resident(pid(plane, Program::ApiServer))),
    ];
    if let Some(operator) = operator {
        rows.push(("operator_cpu_ms_per_pod", each(ours() - ours_before)));
        rows.push(("operator_mib", resident(operator)));
    }
    rows
}

async fn one(api: &Api<Pod>, pod: Pod) -> kube::Result<Duration> {
    let sent = Instant::now();
    api.create(&PostParams::default(), &pod).await?;
    Ok(sent.elapsed())
}

fn pod(number: u32) -> Pod {
    let mut pod: Pod = serde_json::from_str(POD).unwrap();
    pod.metadata.name = Some(format!("pod-{number}"));
    pod.metadata.namespace = None;
    // Neither its Browser nor its PriorityClass exists here.
    pod.metadata.owner_references = None;
    if let Some(spec) = &mut pod.spec {
        spec.priority_class_name = None;
        spec.scheduling_gates =
            serde_json::from_value(json!([{ "name": "podloom.dev/bench" }])).unwrap();
    }
    pod
}

fn pid(plane: &ControlPlane, program: Program) -> u32 {
    let processes = plane.processes();
    let found = processes.iter().find(|(running, _)| *running == program);
    found.unwrap().1
}

fn cpu(pid: u32) -> Duration {
    usage(pid).unwrap().cpu
}

fn resident(pid: u32) -> f64 {
    let bytes = usage(pid).unwrap().resident;
    f64::from(u32::try_from(bytes >> 10).unwrap_or(u32::MAX)) / 1024.0
}

fn print(columns: &[(&str, &Rows); 2]) {
    let [(_, without), (_, with)] = columns;
    eprintln!("\n{:<28} {:>12} {:>12}", "", "without", "with");
    for (key, value) in with.iter() {
        let other = without.iter().find(|(name, _)| name == key);
        let other = other.map_or_else(|| "-".to_owned(), |(_, value)| format!("{value:.2}"));
        eprintln!("{key:<28} {other:>12} {value:>12.2}");
    }
}

//! Measures the infrastructure controller on a real control plane, with a real Infrastructure Manager (IM) whose Dummy cloud creates no
//! machines: requests to IM and to the API server for each Cluster, when it is new, at rest, after a change of its template, and when
//! it is deleted; and memory and processor time. It fails if something changes at rest, or if IM has more or less than the Clusters.
#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that cannot go on ends with the reason"
)]

mod bench;
mod requests;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Parser;
use podloom_tests::faults::Proxy;
use podloom_tests::im::{ImOptions, ImOwner, ImServer};
use podloom_tests::infrastructure::Infrastructure;
use podloom_tests::steps::{API_SERVER, Counters, Step};
use podloom_tests::{Cluster, Scene};
use serde_json::{Value, json};

use bench::Bench;

/// What a user has who changes nothing. The interval of polls is in each Cluster.
const FLAGS: [&str; 8] = [
    "--probe-clusters",
    "true",
    "--drift-interval",
    "300s",
    "--im-settle",
    "60s",
    "--im-allow-cidr",
    "127.0.0.0/8,::1/128",
];

/// Measure the infrastructure controller: requests to the Infrastructure Manager and to the API server for each Cluster, and memory.
/// PODLOOM_BLACKBOX_BINARY names the operator's binary.
#[derive(Parser)]
#[command(name = "infrastructure-bench")]
struct Arguments {
    /// The number of Clusters.
    #[arg(long, default_value_t = 200)]
    clusters: usize,
    /// The number of providers, each with a Cloud and an account of its own, all at one Infrastructure Manager.
    #[arg(long, default_value_t = 4)]
    providers: usize,
    /// How long to wait before measuring at rest, in seconds: longer than the poll interval of the Clusters, which is 30 s.
    #[arg(long, default_value_t = 45)]
    pause: u64,
    /// How long to measure at rest, in seconds.
    #[arg(long, default_value_t = 60)]
    rest: u64,
    /// Also write the figures to this file, as one JSON object.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    let cluster = Arc::new(Cluster::installed());
    let scene = Scene::new(cluster, "infrastructure-bench").await;
    let im = ImServer::start(&ImOptions::default()).await;
    let infrastructure = Infrastructure::bare(&scene, &im);
    let owners = providers(&infrastructure, &im, arguments.providers).await;
    let proxy = Proxy::start(infrastructure.kubeconfig());
    // Stands for the API servers of all Clusters.
    let probed = Proxy::start(infrastructure.kubeconfig());
    let operator = infrastructure.operator_behind(&proxy, &FLAGS).await;
    let requests = || {
        let mut requests = requests::sent(&operator, &probed);
        requests.insert(API_SERVER, proxy.totals());
        requests
    };
    let bench = Bench {
        infrastructure: &infrastructure,
        counters: Counters {
            operator: &operator,
            requests: &requests,
        },
        seen: infrastructure.watch().await,
        owners,
        kubeconfig: infrastructure.kubeconfig_behind(&probed),
        names: names(arguments.clusters),
    };
    let steps = bench.measure(arguments.pause, arguments.rest).await;
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&figures(&steps, &arguments)).unwrap();
        fs::write(path, text + "\n").unwrap();
    }
    bench::check(&steps);
    bench.nothing_is_left();
}

fn names(clusters: usize) -> Vec<String> {
    let numbers = 0..clusters;
    numbers.map(|number| format!("c{number}")).collect()
}

/// Creates the providers, each with a Cloud of the same name. Returns their accounts.
async fn providers(
    infrastructure: &Infrastructure<'_>,
    im: &ImServer,
    count: usize,
) -> Vec<ImOwner> {
    let password = infrastructure.password();
    let secret = json!({ "password": password });
    infrastructure.secret("im", secret).await;
    let mut owners = Vec::new();
    for name in (0..count).map(bench::provider) {
        let account = json!({ "username": name, "passwordSecretRef": { "name": "im" } });
        let spec = json!({ "url": im.url(), "basic": account });
        infrastructure.provider(&name, spec).await;
        infrastructure.cloud(&name, &name).await;
        owners.push(im.owner(&name, &password));
    }
    owners
}

/// The figures by step.
fn figures(steps: &[Step], arguments: &Arguments) -> Value {
    let figures = steps.iter().map(|step| {
        let mut figures = step.figures();
        figures["clusters"] = arguments.clusters.into();
        figures["providers"] = arguments.providers.into();
        (step.name.to_owned(), figures)
    });
    Value::Object(figures.collect())
}

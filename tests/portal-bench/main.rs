//! Measures the portal controller on a real control plane, with relays on this machine: requests to the API server and to relays for
//! each PortalExpose, when it is new, at rest and after a change; and memory and processor time.
#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that cannot go on ends with the reason"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use futures::{StreamExt, stream};
use podloom_api::PortalExpose;
use podloom_tests::doubles::{Double, Relay, RelayApi, RelayBehaviour};
use podloom_tests::portal::{Portal, ready};
use podloom_tests::steps::{API_SERVER, Counters, Requests, Step};
use podloom_tests::{Cluster, Scene};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::sleep;

/// How long a step may take.
const PATIENCE: Duration = Duration::from_mins(10);
/// How many requests of our own are sent at once.
const CONCURRENCY: usize = 8;

/// Measure the portal controller: requests to the API server and to relays for each PortalExpose, and memory.
#[derive(Parser)]
#[command(name = "portal-bench")]
struct Arguments {
    /// The number of PortalExposes.
    #[arg(long, default_value_t = 500)]
    exposes: usize,
    /// The number of relays; each PortalExpose has one of them.
    #[arg(long, default_value_t = 10)]
    relays: usize,
    /// How long to measure at rest, in seconds.
    #[arg(long, default_value_t = 60)]
    rest: u64,
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

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    let cluster = Arc::new(Cluster::installed());
    let scene = Scene::new(cluster, "portal-bench").await;
    let portal = Portal::new(&scene).await;
    let names: Vec<String> = (0..arguments.exposes)
        .map(|number| format!("shop{number}"))
        .collect();
    let files = TempDir::new().unwrap();
    let relays = relays(&arguments, &names, &files);
    let authorities = files.path().join("all.pem");
    let proxy = portal.proxy();
    let flags = [
        "--plugins",
        arguments.plugins.to_str().unwrap(),
        "--portal-relay-observation",
        "poll",
        "--portal-relay-allow-cidr",
        "127.0.0.0/8",
        "--portal-relay-ca-file",
        authorities.to_str().unwrap(),
    ];
    let operator = portal.operator_behind(&proxy, &flags).await;
    let requests = || {
        let all = relays.iter().map(|relay| relay.received().count).sum();
        let relays = BTreeMap::from([("all".to_owned(), all)]);
        Requests::from([(API_SERVER, proxy.totals()), ("relays", relays)])
    };
    let counters = Counters {
        operator: &operator,
        requests: &requests,
    };
    let steps = measure(&arguments, &portal, &counters, (&names, &relays)).await;
    for step in &steps {
        step.print(arguments.exposes, "PortalExpose");
    }
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&figures(&steps, &arguments)).unwrap();
        fs::write(path, text + "\n").unwrap();
    }
}

/// Starts the relays; each serves the hostnames of its PortalExposes.
fn relays(arguments: &Arguments, names: &[String], files: &TempDir) -> Vec<Relay> {
    let mut authorities = String::new();
    let mut relays = Vec::new();
    for number in 0..arguments.relays {
        let file = files.path().join(format!("{number}.pem"));
        let host = format!("relay-{number}.localhost");
        let relay = Double::relay(&file, &host, &[]);
        let own = names.iter().skip(number).step_by(arguments.relays);
        let hostnames: Vec<String> = own.map(|name| format!("{name}.{host}")).collect();
        let hostnames: Vec<&str> = hostnames.iter().map(String::as_str).collect();
        relay.behave(&RelayBehaviour::new(RelayApi::State, &hostnames));
        authorities += &fs::read_to_string(&file).unwrap();
        relays.push(relay);
    }
    fs::write(files.path().join("all.pem"), authorities).unwrap();
    relays
}

async fn measure(
    arguments: &Arguments,
    portal: &Portal<'_>,
    counters: &Counters<'_>,
    (names, relays): (&[String], &[Relay]),
) -> Vec<Step> {
    let seen = portal.watch().await;
    let empty = counters.since("started", &counters.now());
    eprintln!("creating {} PortalExposes", names.len());
    let before = counters.now();
    let created = stream::iter(names.iter().enumerate()).map(async |(number, name)| {
        let relay = &relays[number % relays.len()];
        let mut spec = portal.spec(name);
        spec["relay"]["targets"][0]["url"] = format!("wss://{}/relay", relay.authority()).into();
        portal.expose_with(name, spec).await;
    });
    created
        .buffer_unordered(CONCURRENCY)
        .for_each(async |()| ())
        .await;
    let count = names.len();
    seen.until_all(count, "all are ready", PATIENCE, ready)
        .await;
    let new = counters.since("new", &before);
    eprintln!("measuring {} s at rest", arguments.rest);
    let before = counters.now();
    sleep(Duration::from_secs(arguments.rest)).await;
    let rest = counters.since("rest", &before);
    eprintln!("changing the class of all");
    let before = counters.now();
    portal
        .class(json!({ "replicas": 1, "size": "medium" }))
        .await;
    let is_changed = |expose: &PortalExpose| {
        let applied = expose
            .status
            .as_ref()
            .and_then(|status| status.applied.as_ref());
        ready(expose) && applied.and_then(|applied| applied.generation) > Some(1)
    };
    seen.until_all(count, "all are ready again", PATIENCE, is_changed)
        .await;
    let change = counters.since("change", &before);
    vec![empty, new, rest, change]
}

/// The figures by step.
fn figures(steps: &[Step], arguments: &Arguments) -> Value {
    let figures = steps.iter().map(|step| {
        let mut figures = step.figures();
        figures["exposes"] = arguments.exposes.into();
        figures["relays"] = arguments.relays.into();
        (step.name.to_owned(), figures)
    });
    Value::Object(figures.collect())
}

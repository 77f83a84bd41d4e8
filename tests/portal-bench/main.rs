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
use std::time::{Duration, Instant};

use clap::Parser;
use futures::{StreamExt, stream};
use kube::ResourceExt;
use podloom_api::PortalExpose;
use podloom_tests::doubles::{Double, Relay, RelayApi, RelayBehaviour};
use podloom_tests::faults::Proxy;
use podloom_tests::portal::{Portal, ready};
use podloom_tests::usage::{Usage, usage};
use podloom_tests::{Cluster, Operator, Scene, Watched};
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

/// What one step of the benchmark took.
struct Step {
    name: &'static str,
    time: Duration,
    cpu: Duration,
    resident: u64,
    /// Requests to the API server, by verb and resource.
    api: BTreeMap<String, u64>,
    /// Requests to all relays.
    relays: u64,
}

/// Everything that is counted.
struct Counters<'a> {
    operator: &'a Operator,
    proxy: &'a Proxy,
    relays: &'a [Relay],
}

/// The counters at one moment.
struct Moment {
    at: Instant,
    usage: Usage,
    api: BTreeMap<String, u64>,
    relays: u64,
}

impl Counters<'_> {
    fn now(&self) -> Moment {
        let counts = self.proxy.counts();
        let api = counts
            .into_iter()
            .map(|(request, codes)| (request, codes.values().sum()));
        Moment {
            at: Instant::now(),
            usage: usage(self.operator.id()).unwrap(),
            api: api.collect(),
            relays: self.relays.iter().map(|relay| relay.received().count).sum(),
        }
    }

    fn since(&self, name: &'static str, before: &Moment) -> Step {
        let now = self.now();
        let more = |(request, count): (&String, &u64)| {
            let before = before.api.get(request).copied().unwrap_or_default();
            (*count > before).then(|| (request.clone(), *count - before))
        };
        Step {
            name,
            time: now.at - before.at,
            cpu: now.usage.cpu.saturating_sub(before.usage.cpu),
            resident: now.usage.resident,
            api: now.api.iter().filter_map(more).collect(),
            relays: now.relays - before.relays,
        }
    }
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
    let counters = Counters {
        operator: &operator,
        proxy: &proxy,
        relays: &relays,
    };
    let steps = measure(&arguments, &portal, &counters, &names).await;
    print(&steps, &arguments);
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
    names: &[String],
) -> Vec<Step> {
    let seen = portal.watch().await;
    let empty = counters.since("started", &counters.now());
    eprintln!("creating {} PortalExposes", names.len());
    let before = counters.now();
    let created = stream::iter(names.iter().enumerate()).map(async |(number, name)| {
        let relay = &counters.relays[number % counters.relays.len()];
        let mut spec = portal.spec(name);
        spec["relay"]["targets"][0]["url"] = format!("wss://{}/relay", relay.authority()).into();
        portal.expose_with(name, spec).await;
    });
    created
        .buffer_unordered(CONCURRENCY)
        .for_each(async |()| ())
        .await;
    all(&seen, names, "are ready", ready).await;
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
    all(&seen, names, "are ready again", is_changed).await;
    let change = counters.since("change", &before);
    vec![empty, new, rest, change]
}

async fn all(
    seen: &Watched<PortalExpose>,
    names: &[String],
    what: &str,
    is: impl Fn(&PortalExpose) -> bool,
) {
    seen.until_within(what, PATIENCE, |changes| {
        let mut last: BTreeMap<String, bool> = BTreeMap::new();
        for change in changes {
            let expose = change.object();
            last.insert(expose.name_any(), is(expose));
        }
        (last.values().filter(|is| **is).count() == names.len()).then_some(())
    })
    .await;
}

fn print(steps: &[Step], arguments: &Arguments) {
    let exposes = arguments.exposes as f64;
    for step in steps {
        let requests: u64 = step.api.values().sum();
        eprintln!(
            "{:8} {:6.1} s  {:6.2} requests to the API server and {:5.2} to relays for each PortalExpose, {:6.2} ms CPU, {:.0} MiB",
            step.name,
            step.time.as_secs_f64(),
            requests as f64 / exposes,
            step.relays as f64 / exposes,
            step.cpu.as_secs_f64() * 1000.0 / exposes,
            step.resident as f64 / 1_048_576.0,
        );
        for (request, count) in &step.api {
            eprintln!("         {count:6}  {request}");
        }
    }
}

/// The figures by step.
fn figures(steps: &[Step], arguments: &Arguments) -> Value {
    let figures = steps.iter().map(|step| {
        let figures = json!({
            "exposes": arguments.exposes,
            "relays": arguments.relays,
            "seconds": step.time.as_secs_f64(),
            "cpu_ms": step.cpu.as_secs_f64() * 1000.0,
            "resident_bytes": step.resident,
            "api_requests": step.api,
            "relay_requests": step.relays,
        });
        (step.name.to_owned(), figures)
    });
    Value::Object(figures.collect())
}

//! Measures the admission webhook: reviews per second, latency, and the processor time of each, with three chains.
//!
//! The operator gets a cluster in which it may do nothing, so that nothing but the webhook runs. With `--url` any other webhook server is
//! measured in the same way.

mod client;
mod operator;
mod report;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use http::Uri;

use crate::client::{Load, Target};
use crate::operator::{ChainUnderTest, Served};
use crate::report::Measured;

/// Measure the admission webhook: reviews per second, latency, and processor time, at 1, 8 and 64 connections.
#[derive(Parser)]
#[command(name = "webhook-bench")]
struct Arguments {
    /// How long to measure each row, in seconds.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// How many connections send reviews, each one after the other.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 64])]
    connections: Vec<usize>,
    /// The operator's binary.
    #[arg(long, value_name = "FILE", required_unless_present = "url")]
    podloom: Option<PathBuf>,
    /// The directory of plugins, with labels, sidecar and hardening.
    #[arg(long, value_name = "DIR", required_unless_present = "url")]
    plugins: Option<PathBuf>,
    /// The review to send, as JSON; by default a browser's pod of 3 KB.
    #[arg(long, value_name = "FILE")]
    review: Option<PathBuf>,
    /// Measure another webhook server at this URL, for example https://127.0.0.1:8443/mutate. Its certificate is not checked.
    #[arg(long)]
    url: Option<Uri>,
    /// The process of that server, for its processor time.
    #[arg(long, requires = "url")]
    pid: Option<u32>,
    /// Also write the figures to this file, as one JSON object.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The review of a pod that somebody creates.
const REVIEW: &str = include_str!("review.json");
/// The pod of the chain's own benchmark.
const POD: &str = include_str!("../../host/mutators/benches/pod.json");

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let review = review(&arguments)?;
    let measured = match &arguments.url {
        Some(url) => other_server(&arguments, url, &review).await?,
        None => our_server(&arguments, &review).await?,
    };
    report::print(&measured);
    match &arguments.json {
        Some(path) => report::write(&measured, path),
        None => Ok(()),
    }
}

fn review(arguments: &Arguments) -> Result<String> {
    let Some(path) = &arguments.review else {
        return Ok(REVIEW.replace("\"POD\"", POD.trim_end()));
    };
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
}

async fn other_server(arguments: &Arguments, url: &Uri, review: &str) -> Result<Vec<Measured>> {
    let target = Target::of(url)?;
    rows(arguments, &target, arguments.pid, review, url.to_string()).await
}

async fn our_server(arguments: &Arguments, review: &str) -> Result<Vec<Measured>> {
    let (Some(podloom), Some(plugins)) = (&arguments.podloom, &arguments.plugins) else {
        bail!("name the operator with --podloom and its plugins with --plugins");
    };
    let mut measured = Vec::new();
    for chain in ChainUnderTest::ALL {
        for tls in [true, false] {
            let served = Served::start(podloom, plugins, chain, tls)?;
            let scheme = if tls { "https" } else { "http" };
            let address: SocketAddr = served.address();
            let url: Uri = format!("{scheme}://{address}/mutate/pods?timeout=5s").parse()?;
            let target = Target::of(&url)?;
            let transport = if tls { "TLS" } else { "plain" };
            let name = format!("{}, {transport}", chain.name());
            measured.extend(rows(arguments, &target, Some(served.id()), review, name).await?);
        }
    }
    Ok(measured)
}

/// Measures one server at each number of connections.
async fn rows(
    arguments: &Arguments,
    target: &Target,
    pid: Option<u32>,
    review: &str,
    name: String,
) -> Result<Vec<Measured>> {
    let load = |connections, seconds| Load {
        target: target.clone(),
        review: review.to_owned(),
        connections,
        time: Duration::from_secs(seconds),
    };
    // Pools fill, and memory is reserved.
    load(8, 1).run(None).await?;
    let mut rows = Vec::new();
    for &connections in &arguments.connections {
        eprintln!("{name}: {connections} connections");
        let figures = load(connections, arguments.seconds).run(pid).await?;
        rows.push(Measured {
            name: name.clone(),
            connections,
            figures,
        });
    }
    Ok(rows)
}

//! Measures the admission webhook: reviews per second, latency, and the processor time of each, with three chains; against the least
//! that any webhook costs; at a fixed rate, also while the chain reloads and a plugin never returns; and how soon it answers after its
//! start.
//!
//! The operator gets a cluster in which it may do nothing, so that nothing but the webhook runs. With `--url` any other webhook server is
//! measured in the same way.

mod chains;
mod client;
mod kubewarden;
mod limit;
mod operator;
mod ours;
mod paced;
mod report;
mod rollout;
mod schedule;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use http::Uri;
use hyper::body::Bytes;

use crate::client::{Load, Target};
use crate::paced::{Disturbances, positive};
use crate::report::{Measured, Report};

/// Measure the admission webhook: reviews per second, latency, and processor time, at 1, 8 and 64 connections; then at a fixed rate.
#[derive(Parser)]
#[command(name = "webhook-bench")]
struct Arguments {
    /// How long to measure each row, in seconds.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// How many connections send reviews, each one after the other.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 64])]
    connections: Vec<usize>,
    /// How many reviews a second are due in the rows at a fixed rate, instead of `--load`.
    #[arg(long, value_name = "REVIEWS", value_parser = positive)]
    rate: Option<f64>,
    /// The same as a share of the highest rate of three plugins over TLS: the one at which 999 of 1,000 reviews still take less than
    /// 50 ms.
    #[arg(long, value_name = "PERCENT", default_value = "80%", value_parser = percent)]
    load: f64,
    /// How long a row at a fixed rate takes, in seconds.
    #[arg(long = "for", value_name = "SECONDS", default_value_t = 10)]
    paced_seconds: u64,
    #[command(flatten)]
    disturbances: Disturbances,
    /// Measure nothing but what a rollout of a candidate costs a review.
    #[arg(long, conflicts_with = "url")]
    rollout: bool,
    #[command(flatten)]
    kubewarden: kubewarden::Options,
    /// The operator's binary.
    #[arg(long, value_name = "FILE", required_unless_present_any = ["url", "answer_always"])]
    podloom: Option<PathBuf>,
    /// The directory of plugins, with labels, sidecar and hardening.
    #[arg(long, value_name = "DIR", required_unless_present_any = ["url", "answer_always"])]
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
    /// Be the server of this answer, and measure nothing.
    #[arg(long, value_name = "FILE", hide = true)]
    answer_always: Option<PathBuf>,
}

fn percent(text: &str) -> Result<f64, String> {
    Ok(positive(text.trim_end_matches('%'))? / 100.0)
}

impl Arguments {
    /// The most connections.
    fn most(&self) -> usize {
        self.connections.iter().copied().max().unwrap_or_default()
    }
}

/// The review of a pod that somebody creates.
const REVIEW: &str = include_str!("review.json");
/// The pod of the chain's own benchmark.
const POD: &str = include_str!("../../host/mutators/benches/pod.json");

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if let Some(answer) = &arguments.answer_always {
        return limit::serve(answer).await;
    }
    let review = Bytes::from(review(&arguments)?);
    let report = match &arguments.url {
        Some(url) => other_server(&arguments, url, &review).await?,
        None => ours::measure(&arguments, &review).await?,
    };
    report.print();
    match &arguments.json {
        Some(path) => report.write(path),
        None => Ok(()),
    }
}

fn review(arguments: &Arguments) -> Result<String> {
    let Some(path) = &arguments.review else {
        return Ok(REVIEW.replace("\"POD\"", POD.trim_end()));
    };
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
}

async fn other_server(arguments: &Arguments, url: &Uri, review: &Bytes) -> Result<Report> {
    let (target, name) = (Target::of(url)?, url.to_string());
    let mut report = Report::default();
    report.rows = rows(arguments, &target, arguments.pid, review, name).await?;
    Ok(report)
}

/// Measures one server at each number of connections.
async fn rows(
    arguments: &Arguments,
    target: &Target,
    pid: Option<u32>,
    review: &Bytes,
    name: String,
) -> Result<Vec<Measured>> {
    let load = |connections, seconds| Load {
        target: target.clone(),
        review: review.clone(),
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
            chain: name.clone(),
            connections,
            figures,
        });
    }
    Ok(rows)
}

//! `cargo xtask bench`: the benchmarks, and the ratios that the design promises.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};

use crate::{plugins, release, run};

/// The options of `cargo xtask bench`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Also write the figures to this file, as one JSON object.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Measure the operator on a real control plane instead of the chain alone.
    /// All options after this one go to that benchmark: --browsers N, --controller-pid PID, ...; its --help lists all.
    #[arg(long, num_args = 0.., allow_hyphen_values = true, value_name = "OPTION")]
    cluster: Option<Vec<String>>,
    /// Measure the admission webhook: reviews per second, latency, processor time, also at a fixed rate and while the chain reloads.
    /// All options after this one go to that benchmark: --rollout, --for SECONDS, --reload-every 1s, --hostile, ...; its --help lists all.
    #[arg(long, num_args = 0.., allow_hyphen_values = true, value_name = "OPTION", conflicts_with = "cluster")]
    webhook: Option<Vec<String>>,
    /// Measure the portal controller: requests to the API server and to relays for each PortalExpose, and memory.
    /// All options after this one go to that benchmark: --exposes N, --relays N, ...; its --help lists all.
    #[arg(long, num_args = 0.., allow_hyphen_values = true, value_name = "OPTION", conflicts_with_all = ["cluster", "webhook"])]
    portal: Option<Vec<String>>,
    /// Measure the infrastructure controller: requests to the API server and to the Infrastructure Manager for each Cluster, and
    /// memory. All options after this one go to that benchmark: --clusters N, --rest N, ...; its --help lists all.
    #[arg(long, num_args = 0.., allow_hyphen_values = true, value_name = "OPTION", conflicts_with_all = ["cluster", "webhook", "portal"])]
    infrastructure: Option<Vec<String>>,
    /// Measure the controller of Cleaners: how late each deletes when 1,000 are due at one instant, and what 10,000 cost at rest.
    /// All options after this one go to that benchmark: --due N, --resting N, ...; its --help lists all.
    #[arg(long, num_args = 0.., allow_hyphen_values = true, value_name = "OPTION", conflicts_with_all = ["cluster", "webhook", "portal", "infrastructure"])]
    cleaner: Option<Vec<String>>,
    /// Measure what the admission webhook costs a cluster: pods that are created through the API server, without it and with it, or
    /// with policies that do the same. All options after this one go to that benchmark: --policies, --rollout, --pods N, ...; its --help lists all.
    #[arg(long, num_args = 0.., allow_hyphen_values = true, value_name = "OPTION", conflicts_with_all = ["cluster", "webhook", "portal", "infrastructure", "cleaner"])]
    admission: Option<Vec<String>>,
}

/// One line of the table: a measured value and its goal.
struct Figure {
    key: &'static str,
    what: &'static str,
    reached: f64,
    goal: Goal,
}

/// The goal of a figure.
enum Goal {
    AtMost(f64),
    AtLeast(f64),
    /// Neither: it is shown without a verdict.
    None,
}

impl Figure {
    fn holds(&self) -> bool {
        match self.goal {
            Goal::AtMost(most) => self.reached <= most,
            Goal::AtLeast(least) => self.reached >= least,
            Goal::None => true,
        }
    }
}

/// Runs the benchmark that is asked for: of the chain alone, or of the whole operator.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    type Bench = fn(Option<&Path>, &[String]) -> Result<()>;
    let benches: [(&Option<Vec<String>>, Bench); 6] = [
        (&arguments.cluster, cluster),
        (&arguments.webhook, webhook),
        (&arguments.portal, portal),
        (&arguments.infrastructure, infrastructure),
        (&arguments.cleaner, cleaner),
        (&arguments.admission, admission),
    ];
    let json = arguments.json.as_deref();
    let mut benches = benches.into_iter();
    match benches.find_map(|(options, bench)| Some((options.as_ref()?, bench))) {
        Some((options, bench)) => bench(json, options),
        None => chain(json),
    }
}

/// Runs all benchmarks of the chain one after another, so that both sides of a ratio meet the same machine under the same load.
fn chain(json: Option<&Path>) -> Result<()> {
    let bundle = plugins::run_unlimited()?;
    run::step(
        "benchmarks",
        "compiling; the first time takes minutes",
        || run::succeed(bench(&bundle, &["chain", "render", "reload"]).arg("--no-run")),
    )?;
    run::succeed(&mut bench(&bundle, &["chain", "render"]))?;
    let mut figures = figures(&run::target("criterion")?, &bundle)?;
    figures.extend(reloads(&bundle)?);
    print(&figures);
    if let Some(path) = json {
        let object: serde_json::Map<String, Value> = figures
            .iter()
            .map(|figure| (figure.key.to_owned(), json!(figure.reached)))
            .collect();
        let text = serde_json::to_string_pretty(&object)? + "\n";
        fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

fn figures(criterion: &Path, bundle: &Path) -> Result<Vec<Figure>> {
    let time = |id: &str| median(criterion, id);
    Ok(vec![
        Figure {
            key: "chain_vs_parse",
            what: "three plugins on a 3 KB pod, against one parse of it",
            reached: round(time("chain/three")? / time("parse/pod")?),
            goal: Goal::AtMost(4.0),
        },
        Figure {
            key: "json_vs_handle",
            what: "labels with the pod as JSON, against the handle",
            reached: round(time("labels/json")? / time("labels/handle")?),
            goal: Goal::AtLeast(4.0),
        },
        Figure {
            key: "refuse_code_ms",
            what: "rejecting 2 MB of code, ms",
            reached: round(time("refuse/code")? / 1e6),
            goal: Goal::AtMost(100.0),
        },
        Figure {
            key: "plugin_bytes_max",
            what: "largest plugin as shipped, in bytes",
            reached: largest(bundle)?,
            goal: Goal::AtMost(plugins::MAX_BYTES.into()),
        },
    ])
}

/// The figures that the benchmark of hot reload prints. It does not use criterion: a reload changes what it measures.
const RELOADS: [(&str, &str, Goal); 8] = [
    (
        "reload_seconds",
        "one of three plugins changed, until the chain serves, s",
        Goal::AtMost(1.0),
    ),
    (
        "reload_all_seconds",
        "all three changed, until the chain serves, s",
        Goal::None,
    ),
    (
        "reload_call_p50",
        "a call during 1,000 reloads against none: p50",
        Goal::None,
    ),
    (
        "reload_call_p99",
        "a call during 1,000 reloads against none: p99",
        Goal::None,
    ),
    (
        "reload_call_p99_added_ms",
        "added to a call's p99 by reloads, ms",
        Goal::None,
    ),
    (
        "reload_failed_calls",
        "failed calls during 1,000 reloads",
        Goal::AtMost(0.0),
    ),
    (
        "reload_memory_mib",
        "memory more after 1,000 reloads than after 100, MiB",
        Goal::AtMost(8.0),
    ),
    (
        "reload_descriptors",
        "file descriptors more after 1,000 reloads",
        Goal::AtMost(0.0),
    ),
];

/// Runs benchmarks by name, with the profile that the operator is shipped with.
fn bench(bundle: &Path, names: &[&str]) -> Command {
    let mut cargo = run::cargo([
        "bench",
        "--quiet",
        "--workspace",
        "--profile",
        release::DIST,
    ]);
    for name in names {
        cargo.args(["--bench", name]);
    }
    cargo.env("PODLOOM_BUNDLE", bundle);
    cargo
}

fn reloads(bundle: &Path) -> Result<Vec<Figure>> {
    let printed = run::output(bench(bundle, &["reload"]).stderr(Stdio::inherit()))?;
    let printed: Value = serde_json::from_str(&printed).context("the benchmark prints JSON")?;
    let figure = |(key, what, goal)| {
        let reached = printed.get(key).and_then(Value::as_f64);
        let reached = reached.with_context(|| format!("the benchmark printed no {key}"))?;
        Ok(Figure {
            key,
            what,
            reached: (reached * 1000.0).round() / 1000.0,
            goal,
        })
    };
    RELOADS.into_iter().map(figure).collect()
}

/// The median time of a benchmark in nanoseconds, from criterion's files.
fn median(criterion: &Path, id: &str) -> Result<f64> {
    let path = criterion
        .join(id.replace('/', "_"))
        .join("new/estimates.json");
    let text = fs::read_to_string(&path)
        .with_context(|| format!("benchmark {id} wrote no {}", path.display()))?;
    let estimates: Value =
        serde_json::from_str(&text).with_context(|| path.display().to_string())?;
    estimates
        .pointer("/median/point_estimate")
        .and_then(Value::as_f64)
        .with_context(|| format!("{} has no median", path.display()))
}

fn largest(bundle: &Path) -> Result<f64> {
    let mut largest = 0;
    for entry in fs::read_dir(bundle)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // It brings its interpreter, and has a limit of its own.
        if name.ends_with(".wasm.gz") && name != "script.wasm.gz" {
            largest = largest.max(entry.metadata()?.len());
        }
    }
    let largest = u32::try_from(largest).context("a plugin of over 4 GiB")?;
    Ok(f64::from(largest))
}

fn round(ratio: f64) -> f64 {
    (ratio * 100.0).round() / 100.0
}

fn print(figures: &[Figure]) {
    eprintln!(
        "\n{:<56} {:<24} {:>9} {:>16}",
        "what", "key", "reached", "goal"
    );
    for figure in figures {
        let goal = match figure.goal {
            Goal::AtMost(most) => format!("at most {most}"),
            Goal::AtLeast(least) => format!("at least {least}"),
            Goal::None => "none".to_owned(),
        };
        let verdict = if figure.holds() { "" } else { "  MISSED" };
        eprintln!(
            "{:<56} {:<24} {:>9} {goal:>16}{verdict}",
            figure.what, figure.key, figure.reached
        );
    }
}

/// Measures the operator on a real control plane.
fn cluster(json: Option<&Path>, options: &[String]) -> Result<()> {
    measure(&release::local("cluster-bench")?, json, options)
}

/// Measures the admission webhook. The client is optimized too: it takes its share of the same processors.
fn webhook(json: Option<&Path>, options: &[String]) -> Result<()> {
    measure(&release::optimized("webhook-bench")?, json, options)
}

/// Measures what the admission webhook costs a cluster, with an optimized client too.
fn admission(json: Option<&Path>, options: &[String]) -> Result<()> {
    measure(&release::optimized("admission-bench")?, json, options)
}

/// Measures the portal controller, with relays on this machine.
fn portal(json: Option<&Path>, options: &[String]) -> Result<()> {
    release::local("podloom-doubles")?;
    measure(&release::local("portal-bench")?, json, options)
}

/// Measures the infrastructure controller, which needs no plugins, with an IM server on this machine.
fn infrastructure(json: Option<&Path>, options: &[String]) -> Result<()> {
    let python = podloom_im::python()?;
    release::local("podloom-doubles")?;
    let mut bench = Command::new(release::local("infrastructure-bench")?);
    bench.env("PODLOOM_IM_PYTHON", python);
    start(&mut bench, &release::shipped()?, json, options)
}

/// Measures the controller of Cleaners, which needs no plugins.
fn cleaner(json: Option<&Path>, options: &[String]) -> Result<()> {
    let mut bench = Command::new(release::local("cleaner-bench")?);
    start(&mut bench, &release::shipped()?, json, options)
}

/// Builds the operator as it is shipped and runs a benchmark that needs plugins too.
fn measure(bench: &Path, json: Option<&Path>, options: &[String]) -> Result<()> {
    let bundle = plugins::run()?;
    let operator = release::shipped()?;
    let mut bench = Command::new(bench);
    bench
        .arg("--podloom")
        .arg(&operator)
        .arg("--plugins")
        .arg(&bundle)
        .env("PODLOOM_BUNDLE", &bundle);
    start(&mut bench, &operator, json, options)
}

/// Runs a benchmark, which has options of its own.
fn start(
    bench: &mut Command,
    operator: &Path,
    json: Option<&Path>,
    options: &[String],
) -> Result<()> {
    bench
        .args(options)
        // For the harness of the black-box tests, which some of the benchmarks use.
        .env("PODLOOM_BLACKBOX_BINARY", operator)
        .current_dir(run::root());
    if let Some(path) = json {
        bench.arg("--json").arg(path);
    }
    run::succeed(bench)
}

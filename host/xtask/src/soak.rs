//! `cargo xtask soak`: what repeats too often, or takes too long, for every test run.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::{plugins, release, run};

/// A soak of one part. A small sample of the same runs in every `cargo xtask test`.
struct Soak {
    name: &'static str,
    what: &'static str,
    /// For cargo.
    command: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

/// One row for each. proptest itself reads how many cases are wanted, and prints the smallest that fails.
const SOAKS: [Soak; 4] = [
    Soak {
        name: "paths",
        what: "100,000 random transactions on a pod: what is written is allowed, what is not granted makes no difference, a rollback leaves no trace",
        command: &["test", "--package", "podloom-pod-path", "--lib", "laws"],
        environment: &[("PROPTEST_CASES", "100000")],
    },
    Soak {
        name: "guests",
        what: "100,000 random plugins, as a core module and as a component: same pod, same words, same limits",
        command: &[
            "test",
            "--package",
            "podloom-mutators",
            "--test",
            "runner",
            "guests",
        ],
        environment: &[("PROPTEST_CASES", "100000")],
    },
    Soak {
        name: "patch",
        what: "50,000 random chains on random pods: the JSON Patch makes what the chain made, by an implementation that is not ours",
        command: &[
            "test",
            "--package",
            "podloom-pod-path",
            "--package",
            "podloom-mutators",
            "--lib",
            "--test",
            "runner",
            "patch",
        ],
        environment: &[("PROPTEST_CASES", "50000")],
    },
    Soak {
        name: "queue",
        what: "20,000 random histories of the control loop's queue, against a plain model",
        command: &["test", "--package", "podloom-control-loop", "--lib", "laws"],
        environment: &[("PROPTEST_CASES", "20000")],
    },
];

#[derive(Args)]
#[command(after_help = table())]
pub(crate) struct Arguments {
    /// Run this soak alone.
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(SOAKS.map(|soak| soak.name)))]
    only: Option<String>,
    /// Let chance break what is around the operator for so many minutes: replicas on a real control plane, the API server and the
    /// connections to it, plugins, quotas, peers. Then nothing may be lost, doubled or left over.
    #[arg(long, value_name = "N", conflicts_with = "only")]
    minutes: Option<u64>,
    /// For --minutes: repeat the faults of another run, which has printed this.
    #[arg(long, value_name = "N", requires = "minutes")]
    seed: Option<u64>,
}

fn table() -> String {
    let rows = SOAKS.map(|soak| format!("  {:8} {}", soak.name, soak.what));
    format!("Soaks:\n{}", rows.join("\n"))
}

/// Runs what is asked for; all named soaks if nothing is.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if let Some(minutes) = arguments.minutes {
        let bundle = plugins::run()?;
        return chaos(&release::binary()?, &bundle, minutes, arguments.seed);
    }
    let is_asked = |soak: &&Soak| arguments.only.as_ref().is_none_or(|only| only == soak.name);
    let failed: Vec<&str> = SOAKS
        .iter()
        .filter(is_asked)
        .filter(|soak| !holds(soak))
        .map(|soak| soak.name)
        .collect();
    if !failed.is_empty() {
        bail!("these soaks failed: {}", failed.join(", "));
    }
    Ok(())
}

fn holds(soak: &Soak) -> bool {
    eprintln!("\n==> {}: {}", soak.name, soak.what);
    let begun = Instant::now();
    let environment = soak.environment.iter().copied();
    let done = run::succeed(run::cargo(soak.command).envs(environment));
    let outcome = match &done {
        Ok(()) => "done",
        Err(_) => "FAILED",
    };
    let seconds = begun.elapsed().as_secs_f64();
    eprintln!("==> {}: {outcome} in {seconds:.1} s", soak.name);
    done.is_ok()
}

/// Random faults around the operator.
pub(crate) fn chaos(binary: &Path, bundle: &Path, minutes: u64, seed: Option<u64>) -> Result<()> {
    // Built with the features of the black-box tests, which are there already in a test run.
    let arguments = ["build", "--quiet", "--workspace"];
    let binaries = ["--bin", "soak", "--bin", "podloom-doubles"];
    run::succeed(run::cargo(arguments).args(binaries))?;
    let program = run::workspace()?.target_directory.join("debug/soak");
    let mut soak = Command::new(program);
    soak.args(["--minutes", &minutes.to_string()]);
    if let Some(seed) = seed {
        soak.args(["--seed", &seed.to_string()]);
    }
    soak.env("PODLOOM_BLACKBOX_BINARY", binary)
        .env("PODLOOM_BUNDLE", bundle);
    run::succeed(&mut soak)
}

//! The benchmarks of the whole operator: `cargo xtask bench --cluster` on a real control plane, against a bare client,
//! and `cargo xtask bench` with `--webhook`, `--admission`, `--portal`, `--infrastructure` or `--cleaner`.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::{plugins, release, run};

/// Measures the operator on a real control plane.
pub(crate) fn run(json: Option<&Path>, options: &[String]) -> Result<()> {
    measure(&release::local("cluster-bench")?, json, options)
}

/// Measures the admission webhook. The client is optimized too: it takes its share of the same processors.
pub(crate) fn webhook(json: Option<&Path>, options: &[String]) -> Result<()> {
    measure(&release::optimized("webhook-bench")?, json, options)
}

/// Measures what the admission webhook costs a cluster.
pub(crate) fn admission(json: Option<&Path>, options: &[String]) -> Result<()> {
    measure(&release::local("admission-bench")?, json, options)
}

/// Measures the portal controller, with relays on this machine.
pub(crate) fn portal(json: Option<&Path>, options: &[String]) -> Result<()> {
    release::local("podloom-doubles")?;
    measure(&release::local("portal-bench")?, json, options)
}

/// Measures the infrastructure controller, which needs no plugins, with an IM server on this machine.
pub(crate) fn infrastructure(json: Option<&Path>, options: &[String]) -> Result<()> {
    let python = podloom_im::python()?;
    release::local("podloom-doubles")?;
    let mut bench = Command::new(release::local("infrastructure-bench")?);
    bench.env("PODLOOM_IM_PYTHON", python);
    start(&mut bench, &release::shipped()?, json, options)
}

/// Measures the controller of Cleaners, which needs no plugins.
pub(crate) fn cleaner(json: Option<&Path>, options: &[String]) -> Result<()> {
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

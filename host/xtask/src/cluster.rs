//! `cargo xtask bench --cluster`: the operator on a real control plane, against a bare client.

use std::path::Path;

use anyhow::Result;

use crate::{plugins, release, run};

/// Builds what is measured and runs the benchmark, which has options of its own.
pub(crate) fn run(json: Option<&Path>, options: &[String]) -> Result<()> {
    let bundle = plugins::run()?;
    let binary = release::binary()?;
    let mut bench = run::cargo([
        "run",
        "--quiet",
        "--release",
        "--package",
        "podloom-tests",
        "--bin",
        "cluster-bench",
        "--",
    ]);
    bench
        .arg("--podloom")
        .arg(binary)
        .arg("--plugins")
        .arg(bundle)
        .args(options);
    if let Some(path) = json {
        bench.arg("--json").arg(path);
    }
    run::succeed(&mut bench)
}

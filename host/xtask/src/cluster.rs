//! `cargo xtask bench --cluster`: the operator on a real control plane, against a bare client.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::{plugins, release, run};

/// Builds the operator as it is shipped and runs the benchmark, which has options of its own.
pub(crate) fn run(json: Option<&Path>, options: &[String]) -> Result<()> {
    let bundle = plugins::run()?;
    let operator = release::shipped()?;
    let mut bench = Command::new(release::local("cluster-bench")?);
    bench
        .arg("--podloom")
        .arg(operator)
        .arg("--plugins")
        .arg(bundle)
        .args(options)
        .current_dir(run::root());
    if let Some(path) = json {
        bench.arg("--json").arg(path);
    }
    run::succeed(&mut bench)
}

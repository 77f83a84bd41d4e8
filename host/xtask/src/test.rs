//! `cargo xtask test`: what CI runs.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::{plugins, run};

/// Runs all checks in order of their cost, up to the first that fails.
pub(crate) fn run() -> Result<()> {
    let start = Instant::now();
    step("format", || {
        run::succeed(&mut run::cargo(["fmt", "--all", "--check"]))
            .context("`cargo fmt --all` puts it right")
    })?;
    step("lints", || {
        run::succeed(&mut run::cargo([
            "clippy",
            "--quiet",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]))
    })?;
    step("lints of plugins", plugins::lint)?;
    let bundle = step("plugins", plugins::run)?;
    step("tests", || tests(&bundle))?;
    step("documentation", || {
        run::succeed(
            run::cargo(["doc", "--quiet", "--workspace", "--no-deps"])
                .env("RUSTDOCFLAGS", "-D warnings"),
        )
    })?;
    eprintln!("\n==> all checks passed in {}", seconds(start.elapsed()));
    Ok(())
}

/// The tests of all crates. With the bundle named, those that need it fail without it instead of passing by.
fn tests(bundle: &Path) -> Result<()> {
    run::succeed(run::cargo(["test", "--quiet", "--workspace"]).env("PODLOOM_BUNDLE", bundle))
}

fn step<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    eprintln!("\n==> {name}");
    let start = Instant::now();
    let result = work().with_context(|| format!("{name} failed"));
    let outcome = if result.is_ok() { "done" } else { "FAILED" };
    eprintln!("==> {name}: {outcome} in {}", seconds(start.elapsed()));
    result
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

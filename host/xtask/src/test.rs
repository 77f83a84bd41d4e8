//! `cargo xtask test`: what CI runs.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::{dist, plugins, release, run, soak};

/// How many black-box tests run at once. They mostly wait, so there may be more than processors.
const AT_ONCE: &str = "8";

/// How long chance may break what is around the operator.
const SOAK_MINUTES: u64 = 2;

/// How much is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// What needs no control plane.
    Quick,
    /// Everything.
    Whole,
}

/// Runs all checks in order of their cost, up to the first that fails.
pub(crate) fn run(extent: Extent) -> Result<()> {
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
    step("tests", || tests(&bundle, extent))?;
    step("documentation", || {
        run::succeed(
            run::cargo(["doc", "--quiet", "--workspace", "--no-deps"])
                .env("RUSTDOCFLAGS", "-D warnings"),
        )
    })?;
    if extent == Extent::Whole {
        let root = step("distribution", || dist::run(None))?;
        let binary = release::binary()?;
        step("black-box tests", || {
            black_box_tests(&binary, &bundle, &root)
        })?;
        step("soak", || soak::chaos(&binary, &bundle, SOAK_MINUTES, None))?;
    }
    eprintln!("\n==> all checks passed in {}", seconds(start.elapsed()));
    Ok(())
}

/// The tests of all crates. With the bundle named, those that need it fail without it instead of passing by.
fn tests(bundle: &Path, extent: Extent) -> Result<()> {
    let mut tests = run::cargo(["test", "--quiet", "--workspace"]);
    if extent == Extent::Quick {
        // Its own tests start it, and build it first if need be.
        tests.args(["--exclude", "podloom-control-plane"]);
    }
    run::succeed(tests.env("PODLOOM_BUNDLE", bundle))
}

/// The operator as a binary, and the engine of its controllers, on real control planes. Without these names the tests pass by, so
/// that `cargo test` starts none.
fn black_box_tests(binary: &Path, bundle: &Path, root: &Path) -> Result<()> {
    let arguments = [
        "test",
        "--quiet",
        // Of all crates, though one alone has each: so they keep the features that the other tests were built with.
        "--workspace",
        "--test",
        "blackbox",
        "--test",
        "engine",
        "--",
        "--test-threads",
        AT_ONCE,
    ];
    run::succeed(
        run::cargo(arguments)
            .env("PODLOOM_BLACKBOX_BINARY", binary)
            .env("PODLOOM_DIST_ROOT", root)
            .env("PODLOOM_BUNDLE", bundle)
            .env("PODLOOM_CONTROL_PLANE", "1"),
    )
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

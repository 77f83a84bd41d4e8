//! `cargo xtask test`: what CI runs.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::{dist, plugins, release, run, soak};

/// How many black-box tests run at once: more than there are processors, since they mostly wait.
const AT_ONCE: &str = "8";

/// How many minutes of random faults.
const SOAK_MINUTES: u64 = 2;

/// How much is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Everything that needs no control plane.
    Quick,
    /// Everything.
    Whole,
}

/// Runs all checks in order of their cost, up to the first that fails.
pub(crate) fn run(extent: Extent) -> Result<()> {
    let start = Instant::now();
    step("format", || {
        run::succeed(&mut run::cargo(["fmt", "--all", "--check"]))
            .context("`cargo fmt --all` fixes it")
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
    let examples = step("example plugins", plugins::examples)?;
    step("tests", || tests(&bundle, &examples, extent))?;
    step("documentation", || {
        run::succeed(
            run::cargo(["doc", "--quiet", "--workspace", "--no-deps"])
                .env("RUSTDOCFLAGS", "-D warnings"),
        )
    })?;
    if extent == Extent::Whole {
        let root = step("distribution", || dist::run(None))?;
        let binary = release::shipped()?;
        step("black-box tests", || {
            black_box_tests(&binary, &bundle, &root)
        })?;
        step("soak", || soak::chaos(&binary, &bundle, SOAK_MINUTES, None))?;
    }
    eprintln!("\n==> all checks passed in {}", seconds(start.elapsed()));
    Ok(())
}

/// The tests of all crates. Since PODLOOM_BUNDLE is set, tests that need the bundle fail without it; otherwise they are skipped.
/// So are the tests of the SDK's examples without PODLOOM_PLUGIN_EXAMPLES.
fn tests(bundle: &Path, examples: &Path, extent: Extent) -> Result<()> {
    // All of them, so that one run shows everything that fails.
    let mut tests = run::cargo(["test", "--quiet", "--workspace", "--no-fail-fast"]);
    if extent == Extent::Quick {
        // Its tests start a control plane, and build one first if there is none.
        tests.args(["--exclude", "podloom-control-plane"]);
    }
    tests.env("PODLOOM_BUNDLE", bundle);
    run::succeed(tests.env("PODLOOM_PLUGIN_EXAMPLES", examples))
}

/// The operator as a binary, and the engine of its controllers, on real control planes. Without these variables the tests are
/// skipped, so that `cargo test` starts no control plane.
fn black_box_tests(binary: &Path, bundle: &Path, root: &Path) -> Result<()> {
    let arguments = [
        "test",
        "--quiet",
        // All crates, though each test is in one: so the features are those of the other tests, and nothing is compiled again.
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

//! `cargo xtask test`: what CI runs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::black_box::{self, Operator, Part};
use crate::{packages, plugins, run};

/// How many minutes of random faults.
const SOAK_MINUTES: u64 = 2;

/// Asks for the tests on a real node.
const REAL_NODE: &str = "PODLOOM_REAL_NODE";

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
    let without_node = match extent {
        Extent::Quick => None,
        Extent::Whole => why_without_node(),
    };
    if let Some(reason) = &without_node {
        // Now too, for those who do not want to wait for a run without it.
        eprintln!("==> real node: will not run: {reason}");
    }
    let times = Times::new();
    let alone = checks(&times, extent, without_node.is_none());
    times.print();
    let time = seconds(start.elapsed());
    let summary = summary(extent, &time, without_node.as_deref(), &alone?);
    eprintln!("\n==> {summary}");
    Ok(())
}

/// Returns the names of black-box tests that passed only alone.
fn checks(times: &Times, extent: Extent, with_node: bool) -> Result<Vec<String>> {
    times.step("format", || {
        run::succeed(&mut run::cargo(["fmt", "--all", "--check"]))
            .context("`cargo fmt --all` fixes it")
    })?;
    // Linking and packing leave processors idle, which these builds take. Tests run alone.
    let bundles = thread::scope(|scope| {
        let programs = scope.spawn(|| match extent {
            Extent::Quick => Ok(()),
            Extent::Whole => times.step("programs of the black-box tests", || programs(with_node)),
        });
        let bundles = compiled(times);
        run::both(bundles, run::joined("programs", programs))
    });
    let ((bundle, examples), ()) = bundles?;
    times.step("tests", || tests(&bundle, &examples, extent))?;
    times.step("documentation", || {
        run::succeed(
            run::cargo(["doc", "--quiet", "--workspace", "--no-deps"])
                .env("RUSTDOCFLAGS", "-D warnings"),
        )
    })?;
    times.step("packages", packages::check)?;
    if extent == Extent::Quick {
        return Ok(Vec::new());
    }
    // What the tests have built already: the binary that is shipped takes as long to compile as all else together.
    let operator = times.step("image", || Operator::tested(&bundle))?;
    from_outside(times, &operator, with_node)
}

/// What only compiles. Returns the directories of the bundle and of the examples.
fn compiled(times: &Times) -> Result<(PathBuf, PathBuf)> {
    times.step("lints", || {
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
    times.step("lints of plugins", plugins::lint)?;
    let bundle = times.step("plugins", plugins::run)?;
    let examples = times.step("example plugins", plugins::examples)?;
    Ok((bundle, examples))
}

/// Builds or fetches everything that is not Rust, into the user's cache directory.
fn programs(with_node: bool) -> Result<()> {
    podloom_control_plane::Programs::find()?;
    if with_node {
        podloom_real_node::Programs::find()?;
    }
    podloom_control_plane::helm()?;
    podloom_control_plane::helm4()?;
    podloom_control_plane::crane()?;
    podloom_control_plane::doors()?;
    podloom_control_plane::kustomize()?;
    podloom_control_plane::prometheus()?;
    podloom_im::python()?;
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
    // The real node needs the image, so its tests come later.
    tests.env_remove(REAL_NODE).env("PODLOOM_BUNDLE", bundle);
    // Always the same random cases, so that what fails is what was changed. `cargo test` has others each time.
    tests.env("PROPTEST_RNG_SEED", "1");
    run::succeed(tests.env("PODLOOM_PLUGIN_EXAMPLES", examples))
}

/// Why the tests on a real node do not run; nothing if they do.
fn why_without_node() -> Option<String> {
    if std::env::var_os(REAL_NODE).is_none_or(|value| value != "1") {
        return Some(format!("set {REAL_NODE}=1 to run it, as root"));
    }
    let impossible = podloom_real_node::check().err()?;
    Some(format!("this machine cannot run one: {impossible}"))
}

/// The last line, which says what did not run, and what passed only alone.
fn summary(extent: Extent, time: &str, without_node: Option<&str>, alone: &[String]) -> String {
    let left_out = match (extent, without_node) {
        (Extent::Quick, _) => "; what needs a control plane or a real node was left out".to_owned(),
        (Extent::Whole, Some(reason)) => format!("; the real node did not run: {reason}"),
        (Extent::Whole, None) => String::new(),
    };
    let look = black_box::passed_alone(alone);
    let look = look.map_or_else(String::new, |look| format!("; {look}"));
    format!("all checks passed in {time}{left_out}{look}")
}

/// All tests of the operator as it is shipped.
pub(crate) fn shipped() -> Result<()> {
    let operator = Operator::shipped(&plugins::run()?)?;
    let without_node = why_without_node();
    if let Some(reason) = &without_node {
        eprintln!("==> real node: will not run: {reason}");
    }
    let times = Times::new();
    times.step("programs of the black-box tests", || {
        programs(without_node.is_none())
    })?;
    let alone = from_outside(&times, &operator, without_node.is_none());
    times.print();
    if let Some(look) = black_box::passed_alone(&alone?) {
        eprintln!("\n==> {look}");
    }
    Ok(())
}

/// The operator on control planes and perhaps on a real node. Returns the names of tests that passed only alone.
fn from_outside(times: &Times, operator: &Operator, with_node: bool) -> Result<Vec<String>> {
    times.step("alerts", alerts)?;
    let mut alone = Vec::new();
    for part in Part::ALL {
        alone.extend(times.step(part.name(), || operator.succeeds(part, None))?);
    }
    // Both wait most of the time. Tests are not beside them: many have deadlines.
    thread::scope(|scope| {
        let soak = scope.spawn(|| {
            times.step("soak", || {
                black_box::faults(&operator.binary, &operator.bundle, SOAK_MINUTES, None)
            })
        });
        let node = match with_node {
            true => times.step("real node", || real_node(operator)),
            false => Ok(()),
        };
        run::both(node, run::joined("soak", soak))
    })?;
    Ok(alone)
}

/// The alert rules are valid, each fires when it should, and otherwise none does.
fn alerts() -> Result<()> {
    let promtool = podloom_control_plane::prometheus()?.promtool;
    for check in [
        ["check", "rules", "deploy/monitoring/alerts.yaml"],
        ["test", "rules", "deploy/monitoring/alerts_test.yaml"],
    ] {
        run::succeed(Command::new(&promtool).args(check).current_dir(run::root()))?;
    }
    Ok(())
}

/// The operator on a real node.
fn real_node(operator: &Operator) -> Result<()> {
    let arguments = ["test", "--quiet", "--workspace", "--test", "real-node"];
    run::succeed(
        operator
            .tell(&mut run::cargo(arguments))
            .env("PODLOOM_IMAGE", &operator.image.archive)
            .env(REAL_NODE, "1"),
    )
}

/// How long each step took, in the order in which they ended.
struct Times(Mutex<Vec<(String, Duration)>>);

impl Times {
    fn new() -> Self {
        black_box::forget_times();
        Self(Mutex::default())
    }

    fn step<T>(&self, name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        eprintln!("\n==> {name}");
        let start = Instant::now();
        let result = work().with_context(|| format!("{name} failed"));
        let outcome = match &result {
            Ok(_) => "done".to_owned(),
            // What runs beside it may take minutes until the error is printed at the end.
            Err(error) => format!("{error:#};"),
        };
        eprintln!("==> {name}: {outcome} in {}", seconds(start.elapsed()));
        let mut steps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        steps.push((name.to_owned(), start.elapsed()));
        result
    }

    /// Prints them, and the slowest of the black-box tests.
    fn print(&self) {
        let steps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        eprintln!();
        for (name, time) in &*steps {
            eprintln!("{:>10}  {name}", seconds(*time));
        }
        // Without black-box tests there are none.
        if let Ok(slowest) = black_box::slowest() {
            eprintln!("\nThe slowest black-box tests:\n{}", slowest.join("\n"));
        }
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests;

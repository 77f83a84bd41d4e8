//! The black-box tests: the operator from outside, on real control planes.

mod again;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use podloom_control_plane::{KUBERNETES, Programs, RELEASES, Release};

use crate::{image, plugins, release, run};

/// How many tests run at once: more than there are processors, since they mostly wait.
const AT_ONCE: usize = 8;

/// Tests that load the machine, or measure how long something takes, run after the others: too few at once to get in each other's way.
const BUSY: [&str; 6] = [
    "storm::",
    "silence::",
    "webhook_fair::",
    "webhook_load::",
    "cleaner_attacks::",
    "chain_diff::",
];
const BUSY_AT_ONCE: usize = 3;

/// What the tests run.
pub(crate) struct Operator {
    /// The program.
    pub(crate) binary: PathBuf,
    /// The bundle of the standard plugins.
    pub(crate) bundle: PathBuf,
    /// Its image.
    pub(crate) image: image::Built,
    /// The Python interpreter with the IM server.
    im: PathBuf,
}

/// A part of the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All others.
    Others,
    /// Those that are [`BUSY`].
    Busy,
}

impl Part {
    pub(crate) const ALL: [Self; 2] = [Self::Others, Self::Busy];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Others => "black-box tests",
            Self::Busy => "black-box tests under load",
        }
    }
}

/// How many of the slowest tests are named.
const SLOWEST: usize = 10;

/// Where each test writes a line when it ends: how long it took, always in as many characters, and its name.
fn times() -> Result<PathBuf> {
    run::target("black-box-times")
}

/// Forgets the times of an earlier run.
pub(crate) fn forget_times() {
    let _absent = times().map(fs::remove_file);
}

/// The lines of the slowest tests.
pub(crate) fn slowest() -> Result<Vec<String>> {
    let text = fs::read_to_string(times()?)?;
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.sort_by(|one, other| other.cmp(one));
    lines.truncate(SLOWEST);
    Ok(lines)
}

/// What to say at the end of tests that passed only alone, if any did.
pub(crate) fn passed_alone(names: &[String]) -> Option<String> {
    let names = (!names.is_empty()).then(|| names.join(", "))?;
    Some(format!(
        "failed among the others and passed alone, so look into it: {names}"
    ))
}

impl Operator {
    /// As it is shipped: that takes many minutes to compile.
    pub(crate) fn shipped(bundle: &Path) -> Result<Self> {
        Self::of(release::shipped()?, bundle, image::shipped()?)
    }

    /// As the other tests have built it.
    pub(crate) fn tested(bundle: &Path) -> Result<Self> {
        Self::of(release::local("podloom")?, bundle, image::tested()?)
    }

    /// Installs everything that the tests need. They find it built: a build would take longer than they may.
    fn of(binary: PathBuf, bundle: &Path, image: image::Built) -> Result<Self> {
        podloom_control_plane::helm()?;
        podloom_control_plane::helm4()?;
        podloom_control_plane::crane()?;
        podloom_control_plane::doors()?;
        podloom_control_plane::kustomize()?;
        Ok(Self {
            binary,
            bundle: bundle.to_owned(),
            image,
            im: podloom_im::python()?,
        })
    }

    /// Runs one part on a release of Kubernetes, by default the pinned one. Without these variables the tests are skipped, so that
    /// `cargo test` starts no control plane and installs nothing.
    ///
    /// Returns the names of those that passed only alone.
    pub(crate) fn succeeds(&self, part: Part, release: Option<Release>) -> Result<Vec<String>> {
        // All crates, though each test is in one: so the features are those of the other tests, and nothing is compiled again.
        let programs: &[&str] = match part {
            Part::Busy => &["blackbox"],
            Part::Others => &["blackbox", "engine", "certificates", "im-server"],
        };
        let times = times()?;
        let tests = || {
            let mut tests = run::cargo(["test", "--quiet", "--workspace", "--no-fail-fast"]);
            tests.args(programs.iter().flat_map(|program| ["--test", *program]));
            self.tell(&mut tests)
                .env("PODLOOM_IM_PYTHON", &self.im)
                .env("PODLOOM_TEST_TIMES", &times)
                .env("PODLOOM_CONTROL_PLANE", "1");
            if let Some(release) = release {
                tests.env(KUBERNETES, release.minor);
            }
            tests
        };
        let (at_once, selected) = match part {
            Part::Busy => (BUSY_AT_ONCE, BUSY.to_vec()),
            Part::Others => {
                let skipped = BUSY.iter().flat_map(|busy| ["--skip", *busy]);
                (AT_ONCE, skipped.collect())
            }
        };
        let at_once = at_once.to_string();
        let arguments = ["--test-threads", &at_once].into_iter().chain(selected);
        again::succeed(tests, &arguments.map(str::to_owned).collect::<Vec<_>>())
    }

    /// Sets the variables that name what is tested.
    pub(crate) fn tell<'c>(&self, tests: &'c mut Command) -> &'c mut Command {
        tests
            .env("PODLOOM_BLACKBOX_BINARY", &self.binary)
            .env("PODLOOM_DIST_ROOT", &self.image.root)
            .env("PODLOOM_BUNDLE", &self.bundle)
    }
}

/// Runs all parts of the black-box tests on each release, and names at the end what failed.
pub(crate) fn releases() -> Result<()> {
    let operator = Operator::shipped(&plugins::run()?)?;
    let (mut failed, mut alone) = (Vec::new(), Vec::new());
    for release in RELEASES.into_iter().filter(|release| !release.is_pinned()) {
        programs(release)?;
        for part in Part::ALL {
            let name = format!("{} on Kubernetes {}", part.name(), release.minor);
            eprintln!("\n==> {name}");
            match operator.succeeds(part, Some(release)) {
                Ok(names) => alone.extend(names),
                Err(error) => {
                    eprintln!("{error:#}");
                    failed.push(name);
                }
            }
        }
    }
    if let Some(look) = passed_alone(&alone) {
        eprintln!("\n==> {look}");
    }
    if !failed.is_empty() {
        bail!("these failed: {}", failed.join(", "));
    }
    Ok(())
}

/// Builds the control plane of a release first: a build would take longer than a test may.
fn programs(release: Release) -> Result<()> {
    let what = format!("the control plane of Kubernetes {}", release.minor);
    run::step(&what, "building it takes minutes the first time", || {
        Programs::build(release)
            .map(drop)
            .context("it was not built")
    })
}

/// Injects faults for some minutes, into the operator of this binary.
pub(crate) fn faults(binary: &Path, bundle: &Path, minutes: u64, seed: Option<u64>) -> Result<()> {
    // Building the black-box tests builds these binaries with the same features: in a test run nothing is compiled again.
    run::step("soak", "compiling", || {
        let tests = ["test", "--quiet", "--workspace", "--test", "blackbox"];
        run::succeed(run::cargo(tests).arg("--no-run"))
    })?;
    let program = release::built("debug", "soak")?;
    let mut soak = Command::new(program);
    soak.args(["--minutes", &minutes.to_string()]);
    if let Some(seed) = seed {
        soak.args(["--seed", &seed.to_string()]);
    }
    soak.env("PODLOOM_BLACKBOX_BINARY", binary)
        .env("PODLOOM_BUNDLE", bundle);
    run::succeed(&mut soak)
}

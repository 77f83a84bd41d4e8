//! Random faults around the operator.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::{release, run};

/// Injects faults for some minutes, into the operator of this binary.
pub(crate) fn run(binary: &Path, bundle: &Path, minutes: u64, seed: Option<u64>) -> Result<()> {
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

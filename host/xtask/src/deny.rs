//! `cargo xtask deny`: advisories, licences and sources of all dependencies.

use anyhow::{Result, bail};

use crate::run;

/// Runs cargo-deny. Not part of `test`, since not every machine can reach its advisory database.
pub(crate) fn run() -> Result<()> {
    if run::output(&mut run::cargo(["deny", "--version"])).is_err() {
        bail!("cargo-deny is not installed: `cargo install --locked cargo-deny` (a few minutes)");
    }
    run::succeed(&mut run::cargo(["deny", "--workspace", "check"]))
}

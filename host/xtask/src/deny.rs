//! `cargo xtask deny`: advisories, licences and sources of all dependencies.

use anyhow::{Result, bail};
use clap::Args;

use crate::run;

/// The options of the check.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Leave out the advisories, whose database is a repository on GitHub: check versions, licences and sources alone.
    #[arg(long)]
    without_advisories: bool,
}

/// Runs cargo-deny. Not part of `test`, since not every machine can reach its advisory database, and it compiles for minutes.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if run::output(&mut run::cargo(["deny", "--version"])).is_err() {
        bail!("cargo-deny is not installed: `cargo install --locked cargo-deny` (a few minutes)");
    }
    let mut check = run::cargo(["deny", "--workspace", "check"]);
    if arguments.without_advisories {
        check.args(["bans", "licenses", "sources"]);
    }
    run::succeed(&mut check)
}

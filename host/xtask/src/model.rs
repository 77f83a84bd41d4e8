//! `cargo xtask model`: every history of a session, within bounds.

use anyhow::Result;
use clap::Args;

use crate::run;

/// How much of what has no end by itself can happen in one history.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Faults: requests that are lost, late, refused or half done, watches that break or go back, operators that are killed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    faults: u8,
    /// What people do to Browsers, BrowserConfigs and pods, and what goes wrong on nodes.
    #[arg(long, value_name = "N", default_value_t = 1)]
    acts: u8,
    /// How often 31 seconds pass, which is longer than each of the operator's pauses, and half of its timeouts here.
    #[arg(long, value_name = "N", default_value_t = 1)]
    ticks: u8,
    /// How many long random histories of two sessions follow.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    random: u32,
}

/// Searches all histories within these bounds, and then random ones.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Arguments {
        faults,
        acts,
        ticks,
        random,
    } = arguments;
    let bounds = format!("{faults} {acts} {ticks} {random}");
    let mut cargo = run::cargo(["test", "--quiet", "--release"]);
    cargo
        .args(["--package", "podloom-browser", "--lib"])
        .args(["tests::model::no_history_breaks_a_rule", "--"])
        .args(["--exact", "--nocapture"])
        .env("PODLOOM_MODEL", bounds);
    run::succeed(&mut cargo)
}

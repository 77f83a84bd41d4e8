//! `cargo xtask model`: every history of a session, within bounds.

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::run;

/// What is searched, and how far.
#[derive(Args)]
pub(crate) struct Arguments {
    /// How much can happen in one history of what has no end by itself; each is one search. FAULTS: requests that are lost, late, refused
    /// or half done, watches that break or go back, operators that are killed. ACTS: what people do to Browsers, BrowserConfigs and pods,
    /// and what goes wrong on nodes. TICKS: how often 31 seconds pass, which is longer than each of the operator's pauses, and half of its
    /// timeouts here. A search grows tenfold with each.
    #[arg(long, value_name = "FAULTS,ACTS,TICKS", value_parser = bounds, default_values = ["1,1,0", "1,0,1", "0,2,0", "0,1,1"])]
    within: Vec<String>,
    /// How many long random histories of two sessions follow.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    random: u32,
}

/// Reads bounds, and returns them as the search reads them.
fn bounds(text: &str) -> Result<String> {
    let numbers: Vec<&str> = text.split(',').collect();
    ensure!(numbers.len() == 3, "write three numbers, such as 1,1,0");
    for number in &numbers {
        let _: u8 = number
            .parse()
            .with_context(|| format!("{number} is no number from 0 to 255"))?;
    }
    Ok(numbers.join(" "))
}

/// Searches all histories within these bounds, and then random ones.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { within, random } = arguments;
    let searches = within.iter().map(|bounds| format!("{bounds} 0"));
    let mut searches: Vec<String> = searches.collect();
    searches.push(format!("0 0 0 {random}"));
    let mut cargo = run::cargo(["test", "--quiet", "--release"]);
    cargo
        .args(["--package", "podloom-browser", "--lib"])
        .args(["tests::model::no_history_breaks_a_rule", "--"])
        .args(["--exact", "--nocapture"])
        .env("PODLOOM_MODEL", searches.join(","));
    run::succeed(&mut cargo)
}

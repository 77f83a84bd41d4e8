//! `cargo xtask model`: every history of an object, within bounds.

use anyhow::{Context, Result, ensure};
use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::run;

/// What is searched, and how far.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Which duties; all, unless some are named.
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(DUTIES.map(|it| it.name)))]
    duty: Vec<String>,
    /// How much can happen in one history of what has no end by itself; each is one search. FAULTS: requests that are lost, late, refused
    /// or half done, watches that break or go back, operators that are killed. ACTS: what people do to objects, and what goes wrong on
    /// nodes and elsewhere. TICKS: how often 31 seconds pass, which is longer than each of the operator's pauses. A search grows tenfold
    /// with each. Without this option each duty has its own bounds, which take minutes.
    #[arg(long, value_name = "FAULTS,ACTS,TICKS", value_parser = bounds)]
    within: Vec<String>,
    /// How many long random histories of two objects follow.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    random: u32,
}

/// A duty that has a model.
struct Duty {
    /// Its name, and what follows `podloom-` in that of its crate.
    name: &'static str,
    /// How far it is searched.
    within: &'static [&'static str],
}

const DUTIES: [Duty; 4] = [
    Duty {
        name: "browser",
        within: &["1 1 0", "1 0 1", "0 2 0", "0 1 1"],
    },
    Duty {
        name: "cleaner",
        within: &["1 1 0", "1 0 1", "0 1 1"],
    },
    Duty {
        name: "infrastructure",
        within: &["1 1 0", "1 0 2", "0 2 0", "0 1 1"],
    },
    Duty {
        name: "portal",
        within: &["1 0 0", "0 1 0", "0 0 2"],
    },
];

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
    let Arguments {
        duty,
        within,
        random,
    } = arguments;
    let asked = |it: &&Duty| duty.is_empty() || duty.iter().any(|name| name == it.name);
    for Duty { name, within: own } in DUTIES.iter().filter(asked) {
        let bounds: Vec<&str> = match within.is_empty() {
            true => own.to_vec(),
            false => within.iter().map(String::as_str).collect(),
        };
        let searches = bounds.iter().map(|bounds| format!("{bounds} 0"));
        let searches: Vec<String> = searches.chain([format!("0 0 0 {random}")]).collect();
        let mut cargo = run::cargo(["test", "--quiet", "--release"]);
        cargo
            .args(["--package", &format!("podloom-{name}"), "--lib"])
            .args(["tests::model::no_history_breaks_a_rule", "--"])
            .args(["--exact", "--nocapture"])
            .env("PODLOOM_MODEL", searches.join(","));
        run::succeed(&mut cargo)?;
    }
    Ok(())
}

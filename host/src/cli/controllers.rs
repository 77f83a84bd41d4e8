//! `--controllers`: a list of duties.

use std::collections::BTreeSet;

use podloom_controllers::duties::{Duty, Switch};

/// No duty at all.
const NONE: &str = "none";

/// Parses a list of controllers, separated by commas. `none` is the empty list.
pub(super) fn parse(list: &str) -> Result<BTreeSet<Duty>, String> {
    parse_among(list, &|duty| duty.row().switch == Switch::Controllers)
}

/// Like [`parse`], with the duties that a flag of their own switches on.
pub(super) fn parse_duties(list: &str) -> Result<BTreeSet<Duty>, String> {
    parse_among(list, &|_| true)
}

fn parse_among(list: &str, is_known: &dyn Fn(Duty) -> bool) -> Result<BTreeSet<Duty>, String> {
    let names: Vec<&str> = list.split(',').map(str::trim).collect();
    if names == [NONE] {
        return Ok(BTreeSet::new());
    }
    let mut duties = BTreeSet::new();
    for name in names {
        match Duty::named(name) {
            Some(duty) if is_known(duty) => drop(duties.insert(duty)),
            None if name == NONE => {
                return Err(format!("{NONE} cannot be combined with other controllers"));
            }
            found => return Err(unknown(name, found, is_known)),
        }
    }
    Ok(duties)
}

fn unknown(name: &str, found: Option<Duty>, is_known: &dyn Fn(Duty) -> bool) -> String {
    if let Some(Switch::Flag(flag)) = found.map(|duty| duty.row().switch) {
        return format!("{name} is no controller: switch it on with {flag}");
    }
    let known = Duty::ALL.into_iter().filter(|duty| is_known(*duty));
    let names: Vec<&str> = known.map(|duty| duty.row().name).collect();
    format!(
        "unknown controller {name:?}; known: {}, or {NONE} for no controller",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests;

//! `--controllers`: the list of enabled duties.

use podloom_controllers::duties::{Chain, Duty};

/// No duty at all.
const NONE: &str = "none";

/// The named duties, each once and in the order of their table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Controllers(Vec<Duty>);

impl Controllers {
    /// The duties.
    pub(crate) fn duties(&self) -> &[Duty] {
        &self.0
    }

    /// Whether any of them passes pods through the plugin chain.
    pub(crate) fn need_chain(&self) -> bool {
        self.0.iter().any(|duty| duty.row().chain == Chain::Needed)
    }
}

/// Parses a list of names, separated by commas. `none` is the empty list.
pub(super) fn parse(list: &str) -> Result<Controllers, String> {
    let names: Vec<&str> = list.split(',').map(str::trim).collect();
    if names == [NONE] {
        return Ok(Controllers(Vec::new()));
    }
    let mut duties = Vec::new();
    for name in names {
        match Duty::named(name) {
            Some(duty) => duties.push(duty),
            None if name == NONE => {
                return Err(format!("{NONE} cannot be combined with other controllers"));
            }
            None => return Err(format!("unknown controller {name:?}; known: {}", known())),
        }
    }
    duties.sort_unstable();
    duties.dedup();
    Ok(Controllers(duties))
}

/// All valid names.
fn known() -> String {
    let names = Duty::ALL.map(|duty| duty.row().name);
    format!("{}, or {NONE} for no controller", names.join(", "))
}

#[cfg(test)]
mod tests;

//! `--controllers`: which duties are meant.

use podloom_controllers::duties::{Chain, Duty};

/// No duty at all.
const NONE: &str = "none";

/// The duties that were named, each once and in the order of their table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Controllers(Vec<Duty>);

impl Controllers {
    /// The duties.
    pub(crate) fn duties(&self) -> &[Duty] {
        &self.0
    }

    /// Whether any of them passes pods through the chain of plugins.
    pub(crate) fn need_chain(&self) -> bool {
        self.0.iter().any(|duty| duty.row().chain == Chain::Needed)
    }
}

/// Reads a list of names, separated by commas; `none` alone is no duty.
pub(super) fn parse(list: &str) -> Result<Controllers, String> {
    let names: Vec<&str> = list.split(',').map(str::trim).collect();
    if names == [NONE] {
        return Ok(Controllers(Vec::new()));
    }
    let mut duties = Vec::new();
    for name in names {
        match Duty::named(name) {
            Some(duty) => duties.push(duty),
            None if name == NONE => return Err(format!("{NONE} stands alone, or is left out")),
            None => {
                return Err(format!(
                    "there is no controller {name:?}; there is: {}",
                    known()
                ));
            }
        }
    }
    duties.sort_unstable();
    duties.dedup();
    Ok(Controllers(duties))
}

/// What may be named.
fn known() -> String {
    let names = Duty::ALL.map(|duty| duty.row().name);
    format!("{}, and {NONE} for no controller at all", names.join(", "))
}

#[cfg(test)]
mod tests;

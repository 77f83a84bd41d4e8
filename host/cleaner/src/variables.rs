//! What conditions see of the targets.

use podloom_cel::Variables;

use super::secrets::{is_hidden, is_secret};
use super::sight::{Problem, SeenTarget};

/// Returns the variables of the targets that conditions see. Of a Secret, they see no values.
///
/// # Errors
///
/// If an object is nested too deep.
pub(super) fn of<'a>(
    targets: impl IntoIterator<Item = &'a SeenTarget>,
) -> Result<Variables, Problem> {
    let mut variables = Variables::default();
    let evaluated = targets.into_iter().filter(|target| target.is_evaluated);
    for target in evaluated {
        if let Some(state) = target.state() {
            let is_secret = is_secret(&target.kind);
            let hides = |path: &[&str]| is_secret && is_hidden(path);
            let inserted = variables.insert_without(&target.name, state, &hides);
            inserted.map_err(|error| Problem::lasting(&target.name, &error))?;
        }
    }
    Ok(variables)
}

#[cfg(test)]
mod tests;

//! What conditions see of the targets.

use podloom_cel::Variables;

use super::sight::{Problem, SeenTarget};

/// Returns the variables of the targets that conditions see.
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
            let inserted = variables.insert(&target.name, state);
            inserted.map_err(|error| Problem::lasting(&target.name, &error))?;
        }
    }
    Ok(variables)
}

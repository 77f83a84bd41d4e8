//! The environment of `cel` in which conditions are compiled and evaluated.

use cel::{DeclarationError, Env, extensions};

use crate::{functions, macros};

/// The name of the time, which every condition knows.
pub(crate) const TIME: &str = "time";

/// Makes the environment: the standard library, the extensions strings and math, and our own functions and macros.
///
/// The functions of the extension lists are our own, since its loops cannot be stopped; and there are no optional values, which
/// conditions of Kubernetes objects do not need: `has` does the same.
///
/// # Errors
/// If a name is there twice, which the tests would notice.
pub(crate) fn environment() -> Result<Env, DeclarationError> {
    let mut env = Env::stdlib().with_optional_support(false);
    env.add_extension(extensions::strings)?;
    env.add_extension(extensions::math)?;
    env.add_extension(functions::extension)?;
    env.add_extension(macros::extension)?;
    Ok(env)
}

//! `cargo xtask im`: the IM server of the tests, for manual use.

use anyhow::Result;

/// Installs the server, if it is not installed yet.
#[expect(
    clippy::print_stdout,
    reason = "the interpreter is the command's output, for scripts"
)]
pub(crate) fn run() -> Result<()> {
    println!("{}", podloom_im::python()?.display());
    Ok(())
}

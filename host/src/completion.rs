//! `podloom completion`: completes commands and options in a shell.

use clap::CommandFactory;

use crate::cli::{Arguments, CompletionArguments};
use crate::error::CommandError;
use crate::output;

/// Prints the script.
pub(crate) fn run(arguments: &CompletionArguments) -> Result<(), CommandError> {
    let mut script = Vec::new();
    let mut command = Arguments::command();
    clap_complete::generate(arguments.shell, &mut command, "podloom", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

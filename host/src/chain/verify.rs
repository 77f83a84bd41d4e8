//! `podloom chain verify`: checks the signature of a chain.

use std::fmt::Write;

use podloom_mutators::Signers;

use crate::cli::VerifyArguments;
use crate::error::CommandError;
use crate::explain::count;
use crate::{load, output};

/// Checks the signature, and prints who signed what.
pub(crate) fn run(arguments: &VerifyArguments) -> Result<(), CommandError> {
    let directory = &arguments.directory;
    let signers: Signers = arguments.keys.iter().cloned().collect();
    let bundle = load::bundle(directory)?;
    let signer = signers
        .check(&bundle)
        .map_err(|error| CommandError::invalid(format!("{}: {error}", directory.display())))?;
    let files: Vec<&str> = bundle.files().map(|(name, _)| name).collect();
    let mut text = format!("signed by the key {}\n", signer.fingerprint);
    let _infallible = writeln!(
        text,
        "covers chain.yaml and {}{}{}",
        count(files.len(), "file"),
        if files.is_empty() { "" } else { ": " },
        files.join(", ")
    );
    output::print(&text)
}

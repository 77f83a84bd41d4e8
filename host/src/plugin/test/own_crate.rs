//! Tests the plugin of a crate: builds it, and runs its bundle's chain on its cases.

use std::path::{Path, PathBuf};

use super::cases;
use crate::chain::{self, Pods};
use crate::cli::TestArguments;
use crate::error::CommandError;
use crate::load;
use crate::output::{self, QUIET, paint};
use crate::plugin::build::{self, BUNDLE, OldSchema};
use crate::subjects::Warnings;

/// The directory with the cases of a crate that `podloom plugin new` created.
const CASES: &str = "cases";

/// The directory of the crate to test; none if a plugin's file is named.
pub(super) fn directory(arguments: &TestArguments) -> Option<PathBuf> {
    match &arguments.plugin {
        None => Some(PathBuf::from(".")),
        Some(path) if path.is_dir() => Some(path.clone()),
        Some(_) => None,
    }
}

/// Builds the plugin of a crate into its bundle. Returns the plugin's file, and the arguments with the crate's bundle and cases
/// in place of those that are not given.
pub(super) fn build(
    directory: &Path,
    arguments: &TestArguments,
) -> Result<(PathBuf, TestArguments), CommandError> {
    let bundle = build::in_crate(directory, BUNDLE);
    let old = if arguments.update {
        OldSchema::Write
    } else {
        OldSchema::Refuse
    };
    let built = build::build(directory, &bundle, old)?;
    let size = chain::size(built.found.shipped_bytes);
    let line = format!("built {}, {size}\n", built.file.display());
    output::print(&paint(QUIET, &line))?;
    output::print_note(&build::advice(&bundle, &built.found));
    let mut arguments = arguments.clone();
    if arguments.chain.is_none() && arguments.allow.is_empty() {
        arguments.chain = Some(bundle);
    }
    if arguments.cases.is_none() && arguments.pod.is_none() {
        arguments.cases = Some(build::in_crate(directory, CASES));
    }
    Ok((built.file, arguments))
}

/// Loads the whole bundle as an operator does, and tries its chain on the cases.
pub(super) fn try_chain(arguments: &TestArguments) -> Result<(), CommandError> {
    let Some(bundle) = arguments.chain.as_deref().filter(|chain| chain.is_dir()) else {
        return Ok(());
    };
    let mut pods: Vec<String> = arguments.pod.iter().cloned().collect();
    if let Some(directory) = &arguments.cases {
        let cases = cases::of(directory)?;
        pods.extend(cases.iter().map(|case| case.pod.display().to_string()));
    }
    // Standard input was read to its end before.
    pods.retain(|pod| pod != "-");
    let loaded = load::chain(bundle)?;
    // The cases' warnings were printed when the plugin alone was tried on them.
    let pods = Pods {
        files: &pods,
        corpus: arguments.corpus.as_deref(),
        namespace: &arguments.namespace,
        warnings: Warnings::Known,
    };
    let tried = chain::prove(bundle, &loaded, &pods)?;
    output::print(&format!("chain {}: {tried}\n", bundle.display()))
}

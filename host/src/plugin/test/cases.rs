//! Cases in a directory: NAME.pod.yaml, NAME.golden.yaml, and optionally NAME.config.yaml.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::error::{CommandError, Diagnostic};

const POD: &str = ".pod.yaml";
const CONFIG: &str = ".config.yaml";
const GOLDEN: &str = ".golden.yaml";

/// One case.
pub(super) struct Case {
    pub(super) name: String,
    pub(super) pod: PathBuf,
    pub(super) config: Option<PathBuf>,
    pub(super) golden: PathBuf,
}

/// The cases of a directory, by name. A configuration or golden file without a pod file is an error: its name must be misspelt.
pub(super) fn of(directory: &Path) -> Result<Vec<Case>, CommandError> {
    let shown = directory.display();
    if !directory.is_dir() {
        return Err(CommandError::invalid(format!("{shown}: no such directory")));
    }
    let files = files(directory).with_context(|| shown.to_string())?;
    let mut errors = Vec::new();
    for file in &files {
        let name = [CONFIG, GOLDEN]
            .iter()
            .find_map(|end| file.strip_suffix(end));
        if let Some(name) = name.filter(|name| !files.contains(&format!("{name}{POD}"))) {
            errors.push(Diagnostic::new(format!(
                "{shown}/{file} belongs to no case: add {name}{POD}, or rename the file"
            )));
        }
    }
    let cases: Vec<Case> = files
        .iter()
        .filter_map(|file| file.strip_suffix(POD))
        .map(|name| Case {
            name: name.to_owned(),
            pod: directory.join(format!("{name}{POD}")),
            config: Some(format!("{name}{CONFIG}"))
                .filter(|config| files.contains(config))
                .map(|config| directory.join(config)),
            golden: directory.join(format!("{name}{GOLDEN}")),
        })
        .collect();
    if cases.is_empty() {
        errors.push(Diagnostic::new(format!(
            "{shown} has no cases: name the file of a pod NAME{POD}"
        )));
    }
    if errors.is_empty() {
        Ok(cases)
    } else {
        Err(CommandError::Invalid(errors))
    }
}

fn files(directory: &Path) -> std::io::Result<BTreeSet<String>> {
    let entries = fs::read_dir(directory)?;
    entries
        .filter_map(|entry| match entry {
            // A name that is not UTF-8 is not a case's file.
            Ok(entry) => entry.file_name().into_string().ok().map(Ok),
            Err(error) => Some(Err(error)),
        })
        .collect()
}

//! Cases in a directory: NAME.pod.yaml, NAME.golden.yaml, and NAME.config.yaml if the case has a configuration of its own.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::refusal::{Failure, Refusal};

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

/// The cases of a directory by their names. A file of a case that has no pod is a slip of the pen.
pub(super) fn of(directory: &Path) -> Result<Vec<Case>, Failure> {
    let shown = directory.display();
    if !directory.is_dir() {
        return Err(Failure::refused(format!("{shown}: no such directory")));
    }
    let files = files(directory).with_context(|| shown.to_string())?;
    let mut refusals = Vec::new();
    for file in &files {
        let name = [CONFIG, GOLDEN]
            .iter()
            .find_map(|end| file.strip_suffix(end));
        if let Some(name) = name.filter(|name| !files.contains(&format!("{name}{POD}"))) {
            refusals.push(Refusal::of_input(format!(
                "{shown}/{file} belongs to no case: {name}{POD} is not there"
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
        refusals.push(Refusal::of_input(format!(
            "{shown} holds no case: a case is a file NAME{POD}"
        )));
    }
    if refusals.is_empty() {
        Ok(cases)
    } else {
        Err(Failure::Refused(refusals))
    }
}

fn files(directory: &Path) -> std::io::Result<BTreeSet<String>> {
    let entries = fs::read_dir(directory)?;
    entries
        .filter_map(|entry| match entry {
            // What is not UTF-8 ends in none of our ways.
            Ok(entry) => entry.file_name().into_string().ok().map(Ok),
            Err(error) => Some(Err(error)),
        })
        .collect()
}

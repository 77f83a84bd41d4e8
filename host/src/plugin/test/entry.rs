//! Finds a plugin's entry in an existing chain.yaml.

use std::path::Path;

use podloom_mutators::{Bundle, BundleError, MANIFEST};
use serde_json::{Map, Value};

use crate::error::CommandError;
use crate::load;
use crate::manifest::{self, Depth};

/// Fields that are ignored here: the plugin always runs, a failure is an error, and the tested file may be newer than the pinned one.
const IGNORED: [&str; 3] = ["match", "failurePolicy", "sha256"];

/// Finds the entry of this name, or else the only one with this plugin's file.
pub(super) fn find(
    chain: &Path,
    file: &Path,
    name: Option<&str>,
) -> Result<Map<String, Value>, CommandError> {
    let path = if chain.is_dir() {
        chain.join(MANIFEST)
    } else {
        chain.to_owned()
    };
    let shown = path.display().to_string();
    check(&path, &shown)?;
    let file = file.file_name().unwrap_or_default().to_string_lossy();
    let wanted = name.map_or_else(
        || format!("plugin with the file {file}"),
        |name| format!("plugin {name}"),
    );
    let documents = manifest::read_values(&shown, Depth::Flat)?;
    let mut found: Vec<&Map<String, Value>> = entries(&documents)
        .filter(|entry| match name {
            Some(name) => text(entry, "name") == name,
            None => text(entry, "file") == file,
        })
        .collect();
    match (found.pop(), found.is_empty()) {
        (Some(entry), true) => {
            let mut entry = entry.clone();
            entry.retain(|key, _| !IGNORED.contains(&key.as_str()));
            Ok(entry)
        }
        (Some(_), false) => Err(CommandError::Usage(format!(
            "{shown} has several entries for {wanted}; choose one with --entry NAME"
        ))),
        (None, _) => {
            let names: Vec<&str> = entries(&documents)
                .map(|entry| text(entry, "name"))
                .collect();
            Err(CommandError::invalid(format!(
                "{shown} has no {wanted}; choose one of its plugins with --entry NAME: {}",
                names.join(", ")
            )))
        }
    }
}

/// Checks the manifest as the loader does, but without the plugin files.
fn check(path: &Path, shown: &str) -> Result<(), CommandError> {
    let text = String::from_utf8(load::file(path)?)
        .map_err(|_| CommandError::invalid(format!("{shown}: not UTF-8 text")))?;
    match Bundle::from_parts(&text, []) {
        Err(BundleError::Manifest { problem, .. }) => {
            Err(CommandError::invalid(format!("{shown}: {problem}")))
        }
        _ => Ok(()),
    }
}

fn entries(documents: &[Value]) -> impl Iterator<Item = &Map<String, Value>> {
    let chains = documents.iter().filter_map(|chain| chain.get("plugins"));
    let entries = chains.filter_map(Value::as_array).flatten();
    entries.filter_map(Value::as_object)
}

fn text<'a>(entry: &'a Map<String, Value>, key: &str) -> &'a str {
    entry.get(key).and_then(Value::as_str).unwrap_or_default()
}

//! A plugin's entry in a chain that somebody has written.

use std::path::Path;

use podloom_mutators::{Bundle, BundleError, MANIFEST};
use serde_json::{Map, Value};

use crate::load;
use crate::manifest::{self, Depth};
use crate::refusal::Failure;

/// What says when and whether a plugin runs, and what a failure does: here it runs, and a failure is one. A pin is of the file
/// that is shipped, which another one may be tried for.
const NOT_TRIED: [&str; 3] = ["match", "failurePolicy", "sha256"];

/// Finds the entry of this name, or else the only one with this plugin's file.
pub(super) fn find(
    chain: &Path,
    file: &Path,
    name: Option<&str>,
) -> Result<Map<String, Value>, Failure> {
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
            entry.retain(|key, _| !NOT_TRIED.contains(&key.as_str()));
            Ok(entry)
        }
        (Some(_), false) => Err(Failure::Usage(format!(
            "{shown} lists several: {wanted}; say which with --entry NAME"
        ))),
        (None, _) => {
            let names: Vec<&str> = entries(&documents)
                .map(|entry| text(entry, "name"))
                .collect();
            Err(Failure::refused(format!(
                "{shown}: no {wanted}; it lists {}, and --entry NAME chooses one",
                names.join(", ")
            )))
        }
    }
}

/// A manifest that a chain would not be loaded from is no manifest here either, whatever files lie beside it.
fn check(path: &Path, shown: &str) -> Result<(), Failure> {
    let text = String::from_utf8(load::file(path)?)
        .map_err(|_| Failure::refused(format!("{shown}: not UTF-8 text")))?;
    match Bundle::from_parts(&text, []) {
        Err(BundleError::Manifest { problem, .. }) => {
            Err(Failure::refused(format!("{shown}: {problem}")))
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

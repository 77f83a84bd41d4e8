//! Notices that a plugin's file is older than the source that it was built from.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How many files of a crate are looked at.
const MOST_FILES: usize = 1000;

/// Says that a plugin's file is older than its source; none if it is not, or if there is no source beside it.
///
/// The source is the crate of the same name in the directory above the bundle, as `podloom plugin new` creates it.
pub(crate) fn note(plugin: &Path) -> Option<String> {
    let built = modified(plugin)?;
    let (source, changed) = newest(&crate_of(plugin)?)?;
    if changed <= built {
        return None;
    }
    Some(format!(
        "{} is older than {}: `podloom plugin build` builds it again, `podloom plugin test` builds and tests it",
        plugin.display(),
        source.display()
    ))
}

/// The directory of the crate that a plugin in a bundle was built from.
fn crate_of(plugin: &Path) -> Option<PathBuf> {
    let file = plugin.file_name()?.to_str()?;
    let name = file.strip_suffix(".wasm.gz")?;
    let bundle = plugin.parent()?;
    // `bundle/..` is wrong if the bundle is a symbolic link, so its real path is taken.
    let bundle = if bundle.as_os_str().is_empty() {
        Path::new(".")
    } else {
        bundle
    };
    let directory = match bundle.parent() {
        Some(parent) if bundle.file_name().is_some() => parent.to_owned(),
        _ => bundle.canonicalize().ok()?.parent()?.to_owned(),
    };
    let manifest = fs::read_to_string(directory.join("Cargo.toml")).ok()?;
    let line = format!("name = \"{name}\"");
    manifest
        .lines()
        .any(|found| found.trim() == line)
        .then_some(directory)
}

/// The file of a crate's source that was changed last, and when.
fn newest(directory: &Path) -> Option<(PathBuf, SystemTime)> {
    let mut files: Vec<PathBuf> = ["Cargo.toml", "Cargo.lock", "config.schema.json"]
        .map(|name| directory.join(name))
        .into();
    let mut open = vec![directory.join("src")];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).ok()?.flatten() {
            if files.len() + open.len() >= MOST_FILES {
                return None;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => open.push(entry.path()),
                _ => files.push(entry.path()),
            }
        }
    }
    let dated = files
        .into_iter()
        .filter_map(|file| Some((modified(&file)?, file)));
    dated.max().map(|(changed, file)| (file, changed))
}

fn modified(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).ok()?.modified().ok()
}

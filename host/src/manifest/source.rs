//! Finds and reads the files that `-f` names.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;

use crate::error::{CommandError, Diagnostic};

/// The largest manifest that is read. etcd limits an object to 1.5 MiB, so real manifests stay far below.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The text of one file.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The file as the user named it, or `-`.
    pub(crate) name: Arc<str>,
    /// Its content.
    pub(crate) text: Arc<str>,
}

/// Whether subdirectories are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Only the files of the directory itself.
    Flat,
    /// The files of all subdirectories too.
    Recursive,
}

/// Reads all files that can be read, and adds an error for each of the others. For a directory it reads its `.yaml`, `.yml` and
/// `.json` files, sorted by name.
pub(super) fn read_all(
    files: &[String],
    depth: Depth,
    errors: &mut Vec<Diagnostic>,
) -> Result<Vec<Source>, CommandError> {
    if files.iter().filter(|file| *file == "-").count() > 1 {
        return Err(CommandError::Usage(
            "-f - appears twice, but standard input can be read only once".to_owned(),
        ));
    }
    let mut sources = Vec::new();
    for file in files {
        match read_one(file, depth) {
            Ok(mut found) => sources.append(&mut found),
            Err(CommandError::Invalid(mut found)) => errors.append(&mut found),
            Err(other) => return Err(other),
        }
    }
    Ok(sources)
}

fn read_one(file: &str, depth: Depth) -> Result<Vec<Source>, CommandError> {
    if file == "-" {
        return Ok(vec![read_text("-", io::stdin().lock())?]);
    }
    let path = Path::new(file);
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(CommandError::invalid(format!(
                "{file}: no such file or directory"
            )));
        }
        Err(error) => return Err(anyhow::Error::new(error).context(file.to_owned()).into()),
    };
    if !found.is_dir() {
        return Ok(vec![open(path)?]);
    }
    let mut paths = Vec::new();
    list(path, depth, &mut paths)?;
    if paths.is_empty() {
        return Err(CommandError::invalid(format!(
            "{file}: the directory has no .yaml, .yml or .json file{}",
            match depth {
                Depth::Flat => "; -R reads subdirectories too",
                Depth::Recursive => "",
            }
        )));
    }
    paths.iter().map(|path| open(path)).collect()
}

/// Collects the manifests below a directory. It skips hidden entries: a mounted ConfigMap has every file twice, once in a hidden
/// directory.
fn list(directory: &Path, depth: Depth, found: &mut Vec<PathBuf>) -> Result<(), CommandError> {
    let entries = fs::read_dir(directory)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| directory.display().to_string())?;
    let mut paths: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
    paths.sort();
    for path in paths {
        let hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if hidden {
            continue;
        }
        // Links to directories are not followed: they could form a loop.
        if path.is_dir() {
            if depth == Depth::Recursive && !path.is_symlink() {
                list(&path, depth, found)?;
            }
        } else if is_manifest(&path) {
            found.push(path);
        }
    }
    Ok(())
}

fn is_manifest(path: &Path) -> bool {
    path.extension()
        .and_then(|extension| extension.to_str())
        .is_some_and(|extension| matches!(extension, "yaml" | "yml" | "json"))
}

fn open(path: &Path) -> Result<Source, CommandError> {
    let name = path.display().to_string();
    let file = fs::File::open(path).with_context(|| name.clone())?;
    read_text(&name, file)
}

/// Reads a text up to the limit.
pub(super) fn read_text(name: &str, reader: impl Read) -> Result<Source, CommandError> {
    let mut bytes = Vec::new();
    reader
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .with_context(|| name.to_owned())?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(CommandError::invalid(format!(
            "{name}: larger than {} MiB; split it into several files",
            MAX_BYTES / 1024 / 1024
        )));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        CommandError::Invalid(vec![Diagnostic::new(format!(
            "{name}:{}: not UTF-8 text",
            line + 1
        ))])
    })?;
    Ok(Source {
        name: name.into(),
        text: text.into(),
    })
}

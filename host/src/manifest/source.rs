//! Finds and reads the files behind `-f`.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;

use crate::refusal::{Failure, Refusal};

/// A manifest larger than this is refused unread: etcd takes objects of 1.5 MiB, so nothing real comes near.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The text of one file.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The file as it was named, or `-`.
    pub(crate) name: Arc<str>,
    /// What it says.
    pub(crate) text: Arc<str>,
}

/// How far a directory is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// The directory's own files.
    Flat,
    /// Those of its directories too.
    Recursive,
}

/// Reads all files; a directory stands for its `.yaml`, `.yml` and `.json` files, sorted by name.
pub(super) fn read_all(files: &[String], depth: Depth) -> Result<Vec<Source>, Failure> {
    if files.iter().filter(|file| *file == "-").count() > 1 {
        return Err(Failure::Usage(
            "standard input (-f -) can be read only once".to_owned(),
        ));
    }
    let mut sources = Vec::new();
    let mut refusals = Vec::new();
    for file in files {
        match read_one(file, depth) {
            Ok(mut found) => sources.append(&mut found),
            Err(Failure::Refused(mut found)) => refusals.append(&mut found),
            Err(other) => return Err(other),
        }
    }
    if refusals.is_empty() {
        Ok(sources)
    } else {
        Err(Failure::Refused(refusals))
    }
}

fn read_one(file: &str, depth: Depth) -> Result<Vec<Source>, Failure> {
    if file == "-" {
        return Ok(vec![read_text("-", io::stdin().lock())?]);
    }
    let path = Path::new(file);
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Failure::refused(format!(
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
        return Err(Failure::refused(format!(
            "{file}: the directory has no .yaml, .yml or .json file{}",
            match depth {
                Depth::Flat => " of its own; -R looks into its directories too",
                Depth::Recursive => "",
            }
        )));
    }
    paths.iter().map(|path| open(path)).collect()
}

/// Collects manifests below a directory. Hidden entries are left out: a mounted ConfigMap holds every file twice.
fn list(directory: &Path, depth: Depth, found: &mut Vec<PathBuf>) -> Result<(), Failure> {
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
        // A link to a directory is not followed, so a loop of links ends.
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

fn open(path: &Path) -> Result<Source, Failure> {
    let name = path.display().to_string();
    let file = fs::File::open(path).with_context(|| name.clone())?;
    read_text(&name, file)
}

fn read_text(name: &str, reader: impl Read) -> Result<Source, Failure> {
    let mut bytes = Vec::new();
    reader
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .with_context(|| name.to_owned())?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Failure::refused(format!(
            "{name}: larger than {} MiB; split it into several files",
            MAX_BYTES / 1024 / 1024
        )));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        Failure::Refused(vec![Refusal::of_input(format!(
            "{name}:{}: not UTF-8 text",
            line + 1
        ))])
    })?;
    Ok(Source {
        name: name.into(),
        text: text.into(),
    })
}

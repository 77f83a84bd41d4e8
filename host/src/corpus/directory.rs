//! The directory of a corpus: one file for each object, and a list of them, so that a later recording removes what is gone and
//! nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use anyhow::Context;
use sha2::{Digest, Sha256};

use crate::error::CommandError;

/// The list of the recorded files. Its name begins with a dot, so that nobody reads it as a manifest.
const LIST: &str = ".podloom-corpus";
/// A file while it is being written.
const UNFINISHED: &str = ".podloom-corpus.new";
/// The longest name of an object that is part of a file's name.
const LONGEST: usize = 200;

/// A directory that is being recorded into.
pub(super) struct Directory {
    root: PathBuf,
    /// What an earlier recording wrote.
    before: BTreeSet<String>,
    /// What this one has written, by namespace.
    now: BTreeMap<String, BTreeSet<String>>,
    changed: usize,
}

/// What a recording has written.
pub(super) struct Stored {
    pub(super) files: usize,
    pub(super) namespaces: usize,
    pub(super) changed: usize,
}

impl Directory {
    /// Reads what an earlier recording wrote there. Nothing is written yet.
    pub(super) fn open(root: &Path) -> Result<Self, CommandError> {
        let list = root.join(LIST);
        refuse_link(&list)?;
        let before = match fs::read_to_string(&list) {
            Ok(text) => text.lines().map(str::to_owned).collect(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeSet::new(),
            Err(error) => {
                return Err(CommandError::invalid(format!(
                    "{}: {error}",
                    list.display()
                )));
            }
        };
        // The list may come from somebody else: no file outside is removed.
        if let Some(strange) = before.iter().find(|file| !is_ours(file)) {
            return Err(CommandError::invalid(format!(
                "{}: {strange:?} is no file of a recording: remove the line",
                list.display()
            )));
        }
        Ok(Self {
            root: root.to_owned(),
            before,
            now: BTreeMap::new(),
            changed: 0,
        })
    }

    /// Writes a file, unless it is there already.
    pub(super) fn store(
        &mut self,
        namespace: &str,
        name: &str,
        text: &str,
    ) -> Result<(), CommandError> {
        let file = format!("{namespace}/{}.yaml", short(name));
        let path = self.root.join(&file);
        refuse_link(&self.root.join(namespace))?;
        let there = fs::read(&path);
        if there.as_ref().is_ok_and(|there| there == text.as_bytes()) {
            self.remember(namespace, file);
            return Ok(());
        }
        if there.is_ok() && !self.before.contains(&file) {
            return Err(CommandError::invalid(format!(
                "{}: no recording wrote this file, so none replaces it: move it, or record into another directory",
                path.display()
            )));
        }
        self.write(&path, text)?;
        self.changed += 1;
        self.remember(namespace, file);
        Ok(())
    }

    /// Keeps a file of an earlier recording as it is; false if there is none.
    pub(super) fn keep(&mut self, namespace: &str, name: &str) -> bool {
        let file = format!("{namespace}/{}.yaml", short(name));
        let is_there = self.before.contains(&file);
        if is_there {
            self.remember(namespace, file);
        }
        is_there
    }

    fn remember(&mut self, namespace: &str, file: String) {
        let files = self.now.entry(namespace.to_owned()).or_default();
        files.insert(file);
    }

    pub(super) fn stored(&self) -> Stored {
        // Those of namespaces themselves are not counted.
        let files = self.now.values().map(|files| files.len().saturating_sub(1));
        Stored {
            files: files.sum(),
            namespaces: self.now.len(),
            changed: self.changed,
        }
    }

    /// Removes the files of objects that are gone, and writes the list; returns how many are gone.
    pub(super) fn finish(&self) -> Result<usize, CommandError> {
        let now: BTreeSet<&String> = self.now.values().flatten().collect();
        let mut gone = 0;
        for file in self.before.iter().filter(|file| !now.contains(file)) {
            let path = self.root.join(file);
            refuse_link(path.parent().unwrap_or(&self.root))?;
            match fs::remove_file(&path) {
                Ok(()) => gone += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    let failed = Err(error);
                    failed.with_context(|| format!("cannot remove {}", path.display()))?;
                }
            }
            if let Some(parent) = path.parent() {
                // Only an empty directory can be removed.
                let _others_are_there = fs::remove_dir(parent);
            }
        }
        self.write_list(&now)?;
        Ok(gone)
    }

    /// Removes nothing, and lists what this recording and the earlier one wrote: not everything could be read.
    pub(super) fn keep_list(&self) -> Result<(), CommandError> {
        let now = self.now.values().flatten();
        self.write_list(&now.chain(&self.before).collect())
    }

    fn write_list(&self, files: &BTreeSet<&String>) -> Result<(), CommandError> {
        let lines = files.iter().flat_map(|file| [file.as_str(), "\n"]);
        self.write(&self.root.join(LIST), &lines.collect::<String>())
    }

    /// Replaces a file at once, so that no reader sees half of it.
    fn write(&self, path: &Path, text: &str) -> Result<(), CommandError> {
        let unfinished = self.root.join(UNFINISHED);
        let parent = path.parent().unwrap_or(&self.root);
        // One that an earlier recording left, or a link that somebody put there: it is not followed.
        let _none_is_there = fs::remove_file(&unfinished);
        let written = fs::create_dir_all(parent)
            .and_then(|()| fs::File::create_new(&unfinished))
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .and_then(|()| fs::rename(&unfinished, path));
        Ok(written.with_context(|| format!("cannot write {}", path.display()))?)
    }
}

/// A corpus may come from somebody else: no link leads a recording to other files.
fn refuse_link(path: &Path) -> Result<(), CommandError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => Err(CommandError::invalid(format!(
            "{}: is a symbolic link, which a recording does not follow: remove it",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Whether a line of the list is the path of a recorded file: a directory and a YAML file.
fn is_ours(file: &str) -> bool {
    let path = Path::new(file);
    let parts: Vec<Component<'_>> = path.components().collect();
    let are_plain = parts.iter().all(|it| matches!(it, Component::Normal(_)));
    are_plain && parts.len() == 2 && path.extension().is_some_and(|it| it == "yaml")
}

/// A file's name may have 255 bytes, and an object's name nearly as many.
fn short(name: &str) -> String {
    match name.get(..LONGEST) {
        Some(start) if name.len() > LONGEST => {
            let digest = Sha256::digest(name.as_bytes());
            let digest: String = digest
                .iter()
                .take(8)
                .map(|it| format!("{it:02x}"))
                .collect();
            format!("{start}-{digest}")
        }
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests;

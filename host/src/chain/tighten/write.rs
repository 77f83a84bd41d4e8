//! Replaces chain.yaml as one step.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use podloom_mutators::MANIFEST;

use crate::error::CommandError;

/// Refuses a directory whose chain.yaml cannot be replaced.
pub(super) fn check(directory: &Path) -> Result<(), CommandError> {
    let path = directory.join(MANIFEST);
    let found = fs::symlink_metadata(&path);
    match found.with_context(|| format!("cannot look at {}", path.display()))? {
        found if found.is_symlink() => Err(CommandError::invalid(format!(
            "{}: it is a symbolic link, as in a mounted ConfigMap; run this without --write, and edit what the link is made from",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Writes the new text, unless the file is no longer the one that was read.
pub(super) fn replace(directory: &Path, old: &str, new: &str) -> Result<(), CommandError> {
    check(directory)?;
    let path = directory.join(MANIFEST);
    let failed = || format!("cannot write {}", path.display());
    if fs::read(&path).with_context(failed)? != old.as_bytes() {
        return Err(CommandError::invalid(format!(
            "{}: somebody changed it meanwhile, so nothing was written; run this again",
            path.display()
        )));
    }
    let beside = directory.join(format!(".{MANIFEST}.{}", std::process::id()));
    let written = write(&beside, &path, new).and_then(|()| fs::rename(&beside, &path));
    if written.is_err() {
        // It may not exist.
        let _ignored = fs::remove_file(&beside);
    }
    Ok(written.with_context(failed)?)
}

fn write(beside: &Path, path: &Path, text: &str) -> io::Result<()> {
    let mut file: File = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(beside)?;
    file.set_permissions(fs::metadata(path)?.permissions())?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

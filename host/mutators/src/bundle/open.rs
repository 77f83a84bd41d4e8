//! Opens what lies in a directory, and nothing else: not what a link leads to elsewhere, not a pipe on whose other end nobody is.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// How reading fails where something else has a file's name.
pub(super) const NOT_A_FILE: io::ErrorKind = io::ErrorKind::InvalidInput;

/// Reads a regular file of at most `cap` bytes that lies in a directory, given by its path without links; `None` if it is larger,
/// whatever the directory said of its size.
///
/// Links are followed as long as they stay in the directory. What was opened is checked, not only its name, since names may lead
/// elsewhere by then: it must be the very file that lies in the directory now. That goes for the directory itself: if something
/// else has taken its place, it is gone.
pub(super) fn read(directory: &Path, name: &str, cap: usize) -> io::Result<Option<Vec<u8>>> {
    let named = directory.join(name);
    let file = open(&named)?;
    let opened = file.metadata()?;
    if !opened.is_file() {
        return Err(io::Error::new(NOT_A_FILE, "not a regular file"));
    }
    if fs::canonicalize(directory)? != directory {
        return Err(io::ErrorKind::NotFound.into());
    }
    let path = fs::canonicalize(&named)?;
    if !path.starts_with(directory) {
        return Err(leads_out());
    }
    let there = fs::symlink_metadata(&path)?;
    if (there.dev(), there.ino()) != (opened.dev(), opened.ino()) {
        return Err(io::ErrorKind::NotFound.into());
    }
    let mut bytes = Vec::new();
    file.take(cap as u64 + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() <= cap).then_some(bytes))
}

/// A link that leads out of the directory.
pub(super) fn leads_out() -> io::Error {
    io::Error::new(
        NOT_A_FILE,
        "a symbolic link that leads out of the plugin directory; put the file itself there",
    )
}

/// Waits for nobody: a pipe is opened though nobody writes into it.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
}

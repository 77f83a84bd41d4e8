//! Reads regular files in a directory. Does not follow links out of it, and does not hang on pipes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The error kind for something that is not a regular file in the directory.
pub(super) const NOT_A_FILE: io::ErrorKind = io::ErrorKind::InvalidInput;

/// Reads a regular file of at most `cap` bytes in a directory, which is given by its canonical path; `None` if the file is larger,
/// whatever its metadata says.
///
/// Links are followed as long as they stay in the directory. The opened file is checked, not only its name, since the name may lead
/// elsewhere by then: it must be the file that is in the directory now. If the directory was replaced meanwhile, it counts as
/// not found.
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

/// The error for a link that leads out of the directory.
pub(super) fn leads_out() -> io::Error {
    io::Error::new(
        NOT_A_FILE,
        "a symbolic link that leads out of the plugin directory; put the file itself there",
    )
}

/// Opens without blocking, even if it is a pipe that nobody writes to.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
}

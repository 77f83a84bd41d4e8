//! Opens what lies in a directory, and nothing else: not what a link leads to elsewhere, not a pipe on whose other end nobody is.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// How reading fails where something else has a file's name.
pub(super) const NOT_A_FILE: io::ErrorKind = io::ErrorKind::InvalidInput;

/// Reads a regular file of at most `cap` bytes that lies in a directory, given by its path without links; `None` if it is larger,
/// whatever the directory said of its size.
///
/// Links are followed as long as they stay in the directory. Everything is asked of what was opened, since names may lead
/// elsewhere by then. That goes for the directory itself: if something else has taken its place, it is gone.
pub(super) fn read(directory: &Path, name: &str, cap: usize) -> io::Result<Option<Vec<u8>>> {
    let root = open(directory, libc::O_DIRECTORY | libc::O_NOFOLLOW)?;
    if fs::read_link(link(&root))? != directory {
        return Err(io::ErrorKind::NotFound.into());
    }
    let file = open(&link(&root).join(name), 0)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(NOT_A_FILE, "not a regular file"));
    }
    if !fs::read_link(link(&file))?.starts_with(fs::read_link(link(&root))?) {
        return Err(leads_out());
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
fn open(path: &Path, flags: i32) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | flags)
        .open(path)
}

/// The kernel's own link to something open; what is below it is looked for in that very directory.
fn link(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

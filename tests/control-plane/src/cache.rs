//! The user's cache directory, for what takes long to make: it is made once, by one process at a time.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Where something is kept: in a directory with its title, in a directory for these texts, which decide its content.
///
/// `None` if the environment names no cache directory. Nothing is created.
#[must_use]
pub fn cache<'a>(title: &str, texts: impl IntoIterator<Item = &'a str>) -> Option<PathBuf> {
    let home = cache_home(env::var_os("XDG_CACHE_HOME"), env::home_dir())?;
    let name = title.replace(' ', "-");
    Some(home.join("podloom").join(name).join(digest(texts)))
}

/// Holds a lock until the file is dropped; if the process is killed, the system releases it.
///
/// If another process has it, a line on standard error says so, and this waits.
///
/// # Errors
///
/// Fails if the file cannot be created or locked.
pub fn lock(title: &str, path: &Path) -> io::Result<File> {
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)?;
    if file.try_lock().is_err() {
        eprintln!("{title}: another process is building; waiting for it");
        file.lock()?;
    }
    Ok(file)
}

fn digest<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update(text.len().to_le_bytes());
        hash.update(text);
    }
    hash.finalize()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// As in the XDG Base Directory Specification, a path that is not absolute is ignored.
fn cache_home(xdg: Option<OsString>, home: Option<PathBuf>) -> Option<PathBuf> {
    xdg.map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| Some(home.filter(|path| path.is_absolute())?.join(".cache")))
}

#[cfg(test)]
mod tests;

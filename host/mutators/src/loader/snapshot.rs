//! Takes consistent snapshots of the directory.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use podloom_control_loop::{BoxError, Ctx, Storage};
use tokio::time::timeout;

use super::disk::Disk;
use super::identity::{Content, Directory};
use crate::bundle::{Bundle, BundleError, SIGNATURE, SWAPPED};
use crate::manifest::MANIFEST;

/// How long a plain directory must be unchanged for a snapshot, since writing several files takes a moment.
const QUIET: Duration = Duration::from_millis(250);
/// How often a directory that keeps changing is tried before reading fails.
const ATTEMPTS: usize = 20;
/// A disk that takes longer counts as hanging. This is less than the loop's own timeout, so that the error is reported well.
const PATIENCE: Duration = Duration::from_secs(20);

/// The storage of the loop.
pub(super) struct Snapshots {
    pub(super) disk: Disk,
}

/// The content of the directory.
pub(super) struct Snapshot {
    pub(super) content: Content,
    /// The bundle, or why there is none.
    pub(super) bundle: Result<Bundle, BundleError>,
}

impl From<Result<Bundle, BundleError>> for Snapshot {
    fn from(bundle: Result<Bundle, BundleError>) -> Self {
        Self {
            content: Content::of(&bundle),
            bundle,
        }
    }
}

impl Snapshot {
    /// Reads and digests the content, which takes time if it is large.
    fn at(directory: &Path) -> Self {
        Bundle::read(directory).into()
    }
}

impl Storage<Directory> for Snapshots {
    type Object = Snapshot;

    /// Never returns none, since a missing directory must not remove the last good chain. An unreadable directory is a result too:
    /// the handler reports it once, while the loop would log a warning at each attempt.
    async fn get(&self, _: &Ctx, id: &Directory) -> Result<Option<Self::Object>, BoxError> {
        Ok(Some(
            match timeout(PATIENCE, read(&self.disk, id.path())).await {
                Ok(found) => found?,
                Err(_) => Err(silent(id.path())).into(),
            },
        ))
    }
}

fn silent(directory: &Path) -> BundleError {
    let why = "the disk does not answer";
    BundleError::Open {
        path: directory.to_owned(),
        source: io::Error::new(io::ErrorKind::TimedOut, why),
    }
}

/// Reads an atomically swapped volume at once, and any other directory once it is unchanged for a moment.
async fn read(disk: &Disk, directory: &Path) -> Result<Snapshot, BoxError> {
    for _ in 0..ATTEMPTS {
        let path = directory.to_owned();
        let before = disk.look(move || DirectoryState::of(&path)).await?;
        let path = directory.to_owned();
        if let Ok(DirectoryState::Swapped) = before {
            return disk.look(move || Snapshot::at(&path)).await;
        }
        tokio::time::sleep(QUIET).await;
        let look = move || (Snapshot::at(&path), DirectoryState::of(&path));
        let (found, after) = disk.look(look).await?;
        if is_quiet(&before, &after) {
            return Ok(found);
        }
    }
    let unstable = BundleError::Unstable {
        path: directory.to_owned(),
    };
    Ok(Err(unstable).into())
}

/// Whether nobody wrote in between. A directory that appeared in between may still be incomplete.
fn is_quiet(before: &io::Result<DirectoryState>, after: &io::Result<DirectoryState>) -> bool {
    match (before, after) {
        (Ok(before), Ok(after)) => before == after,
        (Err(_), Err(_)) => true,
        (Ok(_), Err(_)) | (Err(_), Ok(_)) => false,
    }
}

/// The state of a directory as far as it shows without reading its files.
#[derive(PartialEq, Eq)]
enum DirectoryState {
    /// It is swapped atomically, so reading it gives a consistent snapshot.
    Swapped,
    /// Files that may be in the bundle, with inode, size and modification time in nanoseconds.
    Plain(BTreeMap<OsString, (u64, u64, i128)>),
}

impl DirectoryState {
    fn of(directory: &Path) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        // Reading the bundle ignores a dangling link, too.
        if directory.join(SWAPPED).exists() {
            return Ok(Self::Swapped);
        }
        for entry in directory.read_dir()? {
            let entry = entry?;
            // Other files, such as a log or a copy of an editor, may change.
            if !is_of_a_bundle(&entry.file_name()) {
                continue;
            }
            // A file that is removed meanwhile shows when the states are compared.
            if let Ok(found) = entry.path().metadata() {
                let changed =
                    i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
                files.insert(entry.file_name(), (found.ino(), found.size(), changed));
            }
        }
        Ok(Self::Plain(files))
    }
}

fn is_of_a_bundle(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    let is_text = [MANIFEST, SIGNATURE]
        .iter()
        .any(|text| name == text.as_bytes());
    is_text || name.ends_with(b".wasm") || name.ends_with(b".wasm.gz")
}

#[cfg(test)]
mod tests;

//! Reads the directory as it is at one moment.

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
use crate::bundle::{Bundle, BundleError, SWAPPED};
use crate::manifest::MANIFEST;

/// How long a plain directory has to be left alone before it is read: whoever writes into it needs a moment for all files.
const QUIET: Duration = Duration::from_millis(250);
/// A directory that is written to without end is given up until the next look.
const ATTEMPTS: usize = 20;
/// A disk that takes longer does not answer. It is told here, so before the loop itself gives up.
const PATIENCE: Duration = Duration::from_secs(20);

/// The storage of the loop.
pub(super) struct Snapshots {
    pub(super) disk: Disk,
}

/// What is in the directory.
pub(super) struct Snapshot {
    pub(super) content: Content,
    /// A bundle, or why it is none.
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
    /// Reads, and digests what was read; both take their time if it is much.
    fn at(directory: &Path) -> Self {
        Bundle::read(directory).into()
    }
}

impl Storage<Directory> for Snapshots {
    type Object = Snapshot;

    /// The directory is never absent, for the last good chain stays. That it cannot be read is something found, too: the
    /// handler tells it once, where the loop would warn at each attempt.
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

/// Reads a volume that is swapped as a whole at once, and any other directory once it is quiet.
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

/// Whether nobody wrote between two looks. A directory that came meanwhile may hold the half of what is to be in it.
fn is_quiet(before: &io::Result<DirectoryState>, after: &io::Result<DirectoryState>) -> bool {
    match (before, after) {
        (Ok(before), Ok(after)) => before == after,
        (Err(_), Err(_)) => true,
        (Ok(_), Err(_)) | (Err(_), Ok(_)) => false,
    }
}

/// What can be seen of a directory without reading its files.
#[derive(PartialEq, Eq)]
enum DirectoryState {
    /// It is swapped as a whole, so what is read is of one moment.
    Swapped,
    /// Each file that can be of the bundle, with its number, size and time of change in nanoseconds.
    Plain(BTreeMap<OsString, (u64, u64, i128)>),
}

impl DirectoryState {
    fn of(directory: &Path) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        // One that leads nowhere is passed over when the bundle is read, too.
        if directory.join(SWAPPED).exists() {
            return Ok(Self::Swapped);
        }
        for entry in directory.read_dir()? {
            let entry = entry?;
            // A log that somebody keeps there, or an editor's copy, may change as it likes.
            if !is_of_a_bundle(&entry.file_name()) {
                continue;
            }
            // What vanishes meanwhile is missed when the two are compared.
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
    name == MANIFEST.as_bytes() || name.ends_with(b".wasm") || name.ends_with(b".wasm.gz")
}

#[cfg(test)]
mod tests;

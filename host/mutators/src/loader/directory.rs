//! The directory of a loader: its content as consistent snapshots, and the watch that tells when it changes.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{fmt, io};

use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{ErrorKind, Event, EventKind, RecursiveMode, Watcher};
use podloom_control_loop::{BoxError, Ctx, Source, Storage};
use podloom_turns::lock;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::WatchMode;
use crate::bundle::{Bundle, BundleError, SIGNATURE, SWAPPED};
use crate::file;
use crate::manifest::MANIFEST;

/// How long a plain directory must be unchanged for a snapshot, since writing several files takes a moment.
const QUIET: Duration = Duration::from_millis(250);
/// How often a directory that keeps changing is tried before reading fails.
const ATTEMPTS: usize = 20;
/// A disk that takes longer counts as hanging. This is less than the loop's own timeout, so that the error is reported well.
const PATIENCE: Duration = Duration::from_secs(20);

/// The one id of the loop.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Directory(pub(super) Arc<Path>);

impl fmt::Display for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

/// Runs blocking accesses to the directory one at a time: on a network file system whose server is gone an access never returns,
/// and each would take another one of the threads that pods are mutated on.
#[derive(Clone, Debug)]
pub(super) struct Disk(Arc<Semaphore>);

impl Default for Disk {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl Disk {
    /// Waits for the access before, runs this one, and returns its result. If the caller gives up, the access runs on.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, BoxError> {
        let turn = Arc::clone(&self.0).acquire_owned().await?;
        let found = spawn_blocking(move || {
            let found = look();
            drop(turn);
            found
        });
        Ok(found.await?)
    }
}

/// The content of the directory.
pub(super) struct Snapshot {
    /// Its identity: equal for equal content, wherever it was read from.
    pub(super) content: String,
    /// The bundle, or why there is none.
    pub(super) bundle: Result<Bundle, BundleError>,
}

impl Snapshot {
    /// Digests the content, which takes time if it is large.
    pub(super) fn of(bundle: Result<Bundle, BundleError>) -> Self {
        let mut content = match &bundle {
            Err(error) => error.to_string(),
            Ok(bundle) => file::sha256(bundle.manifest()),
        };
        for bundle in bundle.iter() {
            if let Some(signature) = bundle.signature() {
                content.push_str(&format!(" signature {}", file::sha256(signature)));
            }
            for (name, bytes) in bundle.files() {
                content.push_str(&format!(" {name} {}", file::sha256(bytes)));
            }
        }
        Self { content, bundle }
    }
}

impl Storage<Directory> for Disk {
    type Object = Snapshot;

    /// Never returns none, since a missing directory must not remove the last good chain. An unreadable directory is a result too:
    /// the handler reports it once, while the loop would log a warning at each attempt.
    async fn get(&self, _: &Ctx, id: &Directory) -> Result<Option<Self::Object>, BoxError> {
        let Ok(found) = timeout(PATIENCE, read(self, &id.0)).await else {
            let why = "the disk does not answer";
            return Ok(Some(Snapshot::of(Err(BundleError::Open {
                path: id.0.to_path_buf(),
                source: io::Error::new(io::ErrorKind::TimedOut, why),
            }))));
        };
        found.map(Some)
    }
}

/// Reads an atomically swapped volume at once, and any other directory once it is unchanged for a moment.
async fn read(disk: &Disk, directory: &Path) -> Result<Snapshot, BoxError> {
    for _ in 0..ATTEMPTS {
        let path = directory.to_owned();
        let before = disk.look(move || DirectoryState::of(&path)).await?;
        let path = directory.to_owned();
        if let Ok(DirectoryState::Swapped) = before {
            return disk.look(move || Snapshot::of(Bundle::read(&path))).await;
        }
        tokio::time::sleep(QUIET).await;
        let look = move || (Snapshot::of(Bundle::read(&path)), DirectoryState::of(&path));
        let (found, after) = disk.look(look).await?;
        if is_quiet(&before, &after) {
            return Ok(found);
        }
    }
    let unstable = BundleError::Unstable {
        path: directory.to_owned(),
    };
    Ok(Snapshot::of(Err(unstable)))
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

/// The source of the loop. It watches the directory itself, never the files in it: a watch on a file would end when the kubelet
/// swaps the file away.
pub(super) struct Directories {
    directory: Directory,
    watch: WatchMode,
    disk: Disk,
    current: Mutex<Option<Current>>,
}

/// The open watch.
#[derive(Clone)]
struct Current {
    /// The watched directory; the path may lead to another one by now. None if it could not be watched.
    inode: Option<Inode>,
    lost: CancellationToken,
}

/// Events: the directory may have changed.
type Hints = BoxStream<'static, Result<Directory, BoxError>>;

/// Device and number of a directory.
type Inode = (u64, u64);

impl Directories {
    pub(super) fn new(directory: Directory, watch: WatchMode, disk: Disk) -> Self {
        Self {
            directory,
            watch,
            disk,
            current: Mutex::new(None),
        }
    }

    /// Ends the watch, so that the loop opens a new one, if another directory took the place of the watched one, or if the
    /// directory could not be watched before and can be now.
    async fn end_outdated_watch(&self) -> Result<(), BoxError> {
        let Some(current) = lock(&self.current).clone() else {
            return Ok(());
        };
        let (directory, watched) = (self.directory.clone(), current.inode);
        let is_replaced = move || {
            // Tried here, since the loop would log a warning for each failed attempt.
            inode(&directory.0) != watched && (watched.is_some() || can_watch(&directory.0))
        };
        if self.disk.look(is_replaced).await? {
            current.lost.cancel();
        }
        Ok(())
    }

    /// A watch without events, which ends when the directory can be watched.
    fn silent_watch(&self) -> Hints {
        let lost = CancellationToken::new();
        *lock(&self.current) = Some(Current {
            inode: None,
            lost: lost.clone(),
        });
        stream::pending().take_until(lost.cancelled_owned()).boxed()
    }
}

fn open(directory: &Directory) -> notify::Result<(Current, Hints)> {
    // Events have absolute paths, which are compared with this one.
    let path = &std::path::absolute(&directory.0)?;
    let (hints, heard) = mpsc::channel(1);
    let lost = CancellationToken::new();
    let (watched, ends) = (path.clone(), lost.clone());
    let mut watcher = notify::recommended_watcher(move |event| {
        match meaning(&watched, &event) {
            Meaning::Nothing => {}
            // One pending hint is enough.
            Meaning::Changed => drop(hints.try_send(())),
            Meaning::Lost => ends.cancel(),
        }
    })?;
    let current = Current {
        inode: inode(path),
        lost: lost.clone(),
    };
    watcher.watch(path, RecursiveMode::NonRecursive)?;
    let directory = directory.clone();
    // The watch ends with the stream, which owns the watcher.
    let hints = stream::unfold((heard, watcher), |(mut heard, watcher)| async {
        heard.recv().await.map(|()| ((), (heard, watcher)))
    });
    let hints = hints
        .map(move |()| Ok(directory.clone()))
        .take_until(lost.cancelled_owned());
    Ok((current, hints.boxed()))
}

impl Source<Directory> for Directories {
    async fn list(&self, _: &Ctx) -> Result<Vec<Directory>, BoxError> {
        self.end_outdated_watch().await?;
        Ok(vec![self.directory.clone()])
    }

    async fn watch(&self, _: &Ctx) -> Result<Hints, BoxError> {
        if self.watch == WatchMode::Scanned {
            return Ok(stream::pending().boxed());
        }
        let directory = self.directory.clone();
        match self.disk.look(move || open(&directory)).await? {
            Ok((current, hints)) => {
                *lock(&self.current) = Some(current);
                Ok(hints)
            }
            // The handler reports a missing directory.
            Err(error) if is_absent(&error) => Ok(self.silent_watch()),
            Err(error) => {
                tracing::warn!(
                    directory = %self.directory, %error,
                    "cannot watch the directory, only scans will find changes"
                );
                Ok(self.silent_watch())
            }
        }
    }
}

/// What an event of the file system means for the loader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// Somebody reads, perhaps the loader itself.
    Nothing,
    /// Something may have changed.
    Changed,
    /// The directory itself was removed or moved, so later events are not about its path.
    Lost,
}

fn meaning(directory: &Path, event: &notify::Result<Event>) -> Meaning {
    let Ok(event) = event else {
        return Meaning::Changed;
    };
    if event.need_rescan() {
        return Meaning::Changed;
    }
    let itself = event.paths.iter().any(|path| path == directory);
    match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => Meaning::Changed,
        EventKind::Access(_) => Meaning::Nothing,
        EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)) if itself => Meaning::Lost,
        _ => Meaning::Changed,
    }
}

fn is_absent(error: &notify::Error) -> bool {
    match &error.kind {
        ErrorKind::PathNotFound => true,
        ErrorKind::Io(error) => error.kind() == io::ErrorKind::NotFound,
        _ => false,
    }
}

fn can_watch(path: &Path) -> bool {
    let watcher = notify::recommended_watcher(|_: notify::Result<Event>| {});
    watcher
        .and_then(|mut watcher| watcher.watch(path, RecursiveMode::NonRecursive))
        .is_ok()
}

fn inode(path: &Path) -> Option<Inode> {
    let found = path.metadata().ok()?;
    Some((found.dev(), found.ino()))
}

#[cfg(test)]
mod tests;

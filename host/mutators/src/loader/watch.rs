//! Watches the directory for changes.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{ErrorKind, Event, EventKind, RecursiveMode, Watcher};
use podloom_control_loop::{BoxError, Ctx, Source};
use podloom_turns::lock;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::WatchMode;
use super::disk::Disk;
use super::identity::Directory;

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

    fn current(&self) -> MutexGuard<'_, Option<Current>> {
        lock(&self.current)
    }

    /// Ends the watch, so that the loop opens a new one, if another directory took the place of the watched one, or if the
    /// directory could not be watched before and can be now.
    async fn end_outdated_watch(&self) -> Result<(), BoxError> {
        let Some(current) = self.current().clone() else {
            return Ok(());
        };
        let (directory, watched) = (self.directory.clone(), current.inode);
        let is_replaced = move || {
            // Tried here, since the loop would log a warning for each failed attempt.
            inode(directory.path()) != watched && (watched.is_some() || can_watch(directory.path()))
        };
        if self.disk.look(is_replaced).await? {
            current.lost.cancel();
        }
        Ok(())
    }

    /// A watch without events, which ends when the directory can be watched.
    fn silent_watch(&self) -> BoxStream<'static, Result<Directory, BoxError>> {
        let lost = CancellationToken::new();
        *self.current() = Some(Current {
            inode: None,
            lost: lost.clone(),
        });
        stream::pending().take_until(lost.cancelled_owned()).boxed()
    }
}

/// A watch and its events.
type OpenWatch = (Current, BoxStream<'static, Result<Directory, BoxError>>);

fn open(directory: &Directory) -> notify::Result<OpenWatch> {
    // Events have absolute paths, which are compared with this one.
    let path = &std::path::absolute(directory.path())?;
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

    async fn watch(
        &self,
        _: &Ctx,
    ) -> Result<BoxStream<'static, Result<Directory, BoxError>>, BoxError> {
        if self.watch == WatchMode::Scanned {
            return Ok(stream::pending().boxed());
        }
        let directory = self.directory.clone();
        match self.disk.look(move || open(&directory)).await? {
            Ok((current, hints)) => {
                *self.current() = Some(current);
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

//! Notices that the directory changes.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{ErrorKind, Event, EventKind, RecursiveMode, Watcher};
use podloom_control_loop::{BoxError, Ctx, Source};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::WatchMode;
use super::disk::Disk;
use super::identity::Directory;

/// The source of the loop. The directory itself is watched, never the files in it: what the kubelet swaps away takes the watch
/// on a file with it.
pub(super) struct Directories {
    directory: Directory,
    watch: WatchMode,
    disk: Disk,
    current: Mutex<Option<Current>>,
}

/// The watch that is open.
#[derive(Clone)]
struct Current {
    /// What is watched; the path may lead to another directory by now. None if nothing could be watched.
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
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A directory that was put in the place of the one that is watched is watched from now on; so is one that could not be
    /// watched, as soon as it can.
    async fn leave_what_was_replaced(&self) -> Result<(), BoxError> {
        let Some(current) = self.current().clone() else {
            return Ok(());
        };
        let (directory, watched) = (self.directory.clone(), current.inode);
        let is_replaced = move || {
            // Tried here, for the loop would warn of each try.
            inode(directory.path()) != watched && (watched.is_some() || can_watch(directory.path()))
        };
        if self.disk.look(is_replaced).await? {
            current.lost.cancel();
        }
        Ok(())
    }

    /// Hears nothing, until the directory can be watched or never.
    fn hear_nothing(&self) -> BoxStream<'static, Result<Directory, BoxError>> {
        let lost = CancellationToken::new();
        *self.current() = Some(Current {
            inode: None,
            lost: lost.clone(),
        });
        stream::pending().take_until(lost.cancelled_owned()).boxed()
    }
}

/// What is heard of a directory from now on.
type OpenWatch = (Current, BoxStream<'static, Result<Directory, BoxError>>);

fn open(directory: &Directory) -> notify::Result<OpenWatch> {
    // What is told names absolute paths, and is compared with this one.
    let path = &std::path::absolute(directory.path())?;
    let (hints, heard) = mpsc::channel(1);
    let lost = CancellationToken::new();
    let (watched, ends) = (path.clone(), lost.clone());
    let mut watcher = notify::recommended_watcher(move |told| {
        match meaning(&watched, &told) {
            Meaning::Nothing => {}
            // One hint that waits is as good as many.
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
        self.leave_what_was_replaced().await?;
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
            // That it is not there the handler tells.
            Err(error) if is_absent(&error) => Ok(self.hear_nothing()),
            Err(error) => {
                tracing::warn!(
                    directory = %self.directory, %error,
                    "the file system does not tell of changes, they are found by the scan alone"
                );
                Ok(self.hear_nothing())
            }
        }
    }
}

/// What something that the file system told means for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// Somebody reads, perhaps we ourselves.
    Nothing,
    /// Have a look.
    Changed,
    /// The directory itself is gone or elsewhere: what is told from now on is not about its path.
    Lost,
}

fn meaning(directory: &Path, told: &notify::Result<Event>) -> Meaning {
    let Ok(event) = told else {
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

mod disk;
mod snapshot;

use std::path::{Path, PathBuf};

use notify::event::{
    AccessKind, AccessMode, CreateKind, DataChange, Event, EventKind, Flag, MetadataKind,
    ModifyKind, RemoveKind, RenameMode,
};

use futures::{FutureExt, StreamExt};
use podloom_control_loop::{Ctx, Source};
use tempfile::TempDir;

use super::{Directories, Directory, Disk, Meaning, WatchMode, meaning};

const DIRECTORY: &str = "/plugins";

#[track_caller]
fn check(kind: EventKind, path: &str, expected: Meaning) {
    let event = Event::new(kind).add_path(PathBuf::from(path));
    let found = meaning(Path::new(DIRECTORY), &Ok(event));
    assert_eq!(found, expected, "{kind:?} of {path}");
}

#[test]
fn reading_the_directory_is_no_reason_to_read_it() {
    let file = "/plugins/chain.yaml";
    for kind in [
        AccessKind::Open(AccessMode::Any),
        AccessKind::Open(AccessMode::Read),
        AccessKind::Read,
        AccessKind::Close(AccessMode::Read),
        AccessKind::Any,
    ] {
        check(EventKind::Access(kind), file, Meaning::Nothing);
        check(EventKind::Access(kind), DIRECTORY, Meaning::Nothing);
    }
}

#[test]
fn events_that_may_change_a_file_are_a_reason_to_look() {
    let renamed = |mode| EventKind::Modify(ModifyKind::Name(mode));
    for kind in [
        EventKind::Access(AccessKind::Close(AccessMode::Write)),
        EventKind::Create(CreateKind::File),
        EventKind::Create(CreateKind::Folder),
        EventKind::Modify(ModifyKind::Data(DataChange::Any)),
        EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any)),
        EventKind::Remove(RemoveKind::File),
        renamed(RenameMode::From),
        renamed(RenameMode::To),
        EventKind::Any,
        EventKind::Other,
    ] {
        check(kind, "/plugins/..data", Meaning::Changed);
    }
}

#[test]
fn a_directory_that_goes_away_is_watched_no_longer() {
    check(
        EventKind::Remove(RemoveKind::Folder),
        DIRECTORY,
        Meaning::Lost,
    );
    check(
        EventKind::Modify(ModifyKind::Name(RenameMode::From)),
        DIRECTORY,
        Meaning::Lost,
    );
    check(
        EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any)),
        DIRECTORY,
        Meaning::Changed,
    );
}

#[test]
fn lost_events_are_a_reason_to_look() {
    let overflow = Event::new(EventKind::Other).set_flag(Flag::Rescan);
    let directory = Path::new(DIRECTORY);
    assert_eq!(meaning(directory, &Ok(overflow)), Meaning::Changed);
    let failed = Err(notify::Error::generic("the queue was full"));
    assert_eq!(meaning(directory, &failed), Meaning::Changed);
}

#[tokio::test]
async fn a_directory_that_cannot_be_watched_is_watched_as_soon_as_possible() {
    let above = TempDir::new().expect("a directory");
    let path = above.path().join("plugins");
    std::os::unix::fs::symlink(&path, &path).expect("a link to itself");
    let (source, ctx) = (
        Directories::new(
            Directory(path.as_path().into()),
            WatchMode::Notified,
            Disk::default(),
        ),
        Ctx::default(),
    );
    let mut silent = source
        .watch(&ctx)
        .await
        .expect("no error that would be logged again and again");
    source.list(&ctx).await.expect("the directory");
    assert!(silent.next().now_or_never().is_none(), "it is left alone");

    std::fs::remove_file(&path).expect("the link");
    std::fs::create_dir(&path).expect("a directory");
    source.list(&ctx).await.expect("the directory");
    let end = silent.next().now_or_never();
    assert!(
        matches!(end, Some(None)),
        "it ends, so that it is opened again"
    );
    let mut hints = source.watch(&ctx).await.expect("a watch");
    source.list(&ctx).await.expect("the directory");
    std::fs::write(path.join("chain.yaml"), "").expect("a file");
    let hint = hints.next().await.expect("it goes on");
    assert_eq!(*hint.expect("a hint").0, *path);
}

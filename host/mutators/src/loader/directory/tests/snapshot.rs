use std::fs;
use std::os::unix::fs::symlink;
use std::time::SystemTime;

use tempfile::TempDir;

use super::super::*;
use super::disk::hang;

/// A directory with one file of this content, last modified in 1970.
fn holding(content: &str) -> TempDir {
    let directory = TempDir::new().expect("a directory");
    let file = fs::File::create(directory.path().join("chain.yaml")).expect("a file");
    fs::write(directory.path().join("chain.yaml"), content).expect("its content");
    file.set_modified(SystemTime::UNIX_EPOCH).expect("its time");
    directory
}

/// Compares the states before and after something happens.
#[track_caller]
fn check(happens: impl FnOnce(&Path), expected: bool) {
    let directory = holding("one");
    let before = DirectoryState::of(directory.path());
    happens(directory.path());
    assert_eq!(
        is_quiet(&before, &DirectoryState::of(directory.path())),
        expected
    );
}

#[test]
fn a_directory_is_quiet_if_no_file_came_went_or_changed() {
    let manifest = |path: &Path| path.join("chain.yaml");
    check(|_| {}, true);
    check(|path| fs::write(manifest(path), "two").expect("new"), false);
    check(|path| fs::remove_file(manifest(path)).expect("gone"), false);
    check(
        |path| fs::write(path.join("a.wasm"), "").expect("one more"),
        false,
    );
    check(
        |path| fs::rename(manifest(path), path.join("b")).expect("renamed"),
        false,
    );
}

#[test]
fn a_directory_that_came_or_went_is_looked_at_again() {
    let found = || DirectoryState::of(holding("one").path());
    let missing = || DirectoryState::of(Path::new("/nowhere/at/all"));
    assert!(is_quiet(&missing(), &missing()));
    assert!(!is_quiet(&missing(), &found()));
    assert!(!is_quiet(&found(), &missing()));
}

#[test]
fn only_a_data_link_that_resolves_makes_a_volume() {
    let is_swapped = |target: &str| {
        let directory = holding("one");
        symlink(target, directory.path().join(SWAPPED)).expect("a link");
        matches!(
            DirectoryState::of(directory.path()),
            Ok(DirectoryState::Swapped)
        )
    };
    assert!(is_swapped("."));
    assert!(!is_swapped("nowhere"), "it must be quiet like any other");
}

#[test]
fn changes_of_other_files_are_ignored() {
    for name in ["operator.log", ".chain.yaml.swp", "chain.yaml~", "README"] {
        check(|path| fs::write(path.join(name), "").expect("a file"), true);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hanging_disk_is_reported() {
    let disk = Disk::default();
    let _hangs = hang(&disk).await;
    let directory = Directory(Path::new("/plugins").into());
    let found = disk.get(&Ctx::default(), &directory).await;
    let found = found.expect("something").expect("it is never absent");
    let error = found.bundle.expect_err("no bundle");
    assert!(error.is_of_the_disk());
    assert_eq!(
        crate::text::with_sources(&error),
        "cannot open the plugin directory /plugins: the disk does not answer"
    );
}

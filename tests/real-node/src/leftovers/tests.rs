use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::remove;

fn node(parent: &Path, token: &str) -> PathBuf {
    let directory = parent.join(format!("podloom-real-node-{token}"));
    fs::create_dir_all(directory.join("var/lib")).unwrap();
    File::create(directory.join("lock")).unwrap();
    // The cgroups of another: a name in this file alone must not be enough.
    fs::write(
        directory.join("cgroups"),
        format!("{}\n", parent.join("other").display()),
    )
    .unwrap();
    directory
}

#[test]
fn only_what_nobody_uses_is_removed() {
    let parent = tempfile::tempdir().unwrap();
    let other = parent.path().join("other");
    fs::create_dir(&other).unwrap();
    let [dead, alive, kept, new] =
        ["dead", "alive", "kept", "new"].map(|token| node(parent.path(), token));
    let lock = File::open(alive.join("lock")).unwrap();
    lock.lock().unwrap();
    File::create(kept.join("keep-logs")).unwrap();
    fs::remove_file(new.join("lock")).unwrap();
    remove(parent.path());
    assert!(!dead.exists());
    assert!(alive.join("var/lib").exists());
    assert!(kept.exists() && !kept.join("var").exists());
    assert!(new.join("var/lib").exists());
    assert!(other.exists());
}

//! What is left of nodes whose owner and keeper were both killed: files and cgroups, but no processes.

use std::fs::{self, File};
use std::path::{Component, Path, PathBuf};

use crate::cgroups;
use crate::keeper::NAME;

/// Removes what is left of nodes that no longer run. Those that run hold a lock, and are left alone.
///
/// What cannot be removed is left for the next time: it does not stop a new node.
pub(crate) fn remove(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let directory = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        // With its logs kept, a node has no var/ when it ended properly.
        if name.starts_with(NAME) && directory.join("var").is_dir() && is_abandoned(&directory) {
            remove_one(&directory, &name);
        }
    }
}

/// A directory whose lock has no name yet is just being made.
fn is_abandoned(directory: &Path) -> bool {
    let lock = File::open(directory.join("lock"));
    lock.is_ok_and(|lock| lock.try_lock().is_ok())
}

fn remove_one(directory: &Path, name: &str) {
    let lines = fs::read_to_string(directory.join("cgroups")).unwrap_or_default();
    // Only those that have the directory's own name, whatever the file says.
    let own = |path: &PathBuf| {
        let mut parts = path.components();
        path.starts_with("/sys/fs/cgroup")
            && !parts.any(|part| part == Component::ParentDir)
            && path.file_name().is_some_and(|last| last == name)
    };
    let cgroups: Vec<PathBuf> = lines.lines().map(PathBuf::from).filter(own).collect();
    cgroups::remove(&cgroups);
    let what = match directory.join("keep-logs").exists() {
        true => directory.join("var"),
        false => directory.to_owned(),
    };
    if !cgroups.iter().any(|cgroup| cgroup.exists()) && fs::remove_dir_all(what).is_ok() {
        eprintln!(
            "real node: removed what was left of {}",
            directory.display()
        );
    }
}

#[cfg(test)]
mod tests;

//! The node's own cgroups: one in each hierarchy, below the cgroup of this process.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where hierarchies are mounted.
const MOUNT: &str = "/sys/fs/cgroup";

/// The cgroup of this process in each hierarchy that is mounted, from the text of `/proc/self/cgroup`.
///
/// `mount` is where the hierarchies are; in tests, another directory.
pub(crate) fn own(text: &str, mount: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = text
        .lines()
        .filter_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            let controllers = controllers.strip_prefix("name=").unwrap_or(controllers);
            let hierarchy = mount.join(if controllers.is_empty() {
                "unified"
            } else {
                controllers
            });
            // Hierarchies that are mounted elsewhere are left out.
            let cgroup = hierarchy.join(path.trim_start_matches('/'));
            cgroup.is_dir().then_some(cgroup)
        })
        .collect();
    found.sort();
    found
}

/// The cgroups of this process.
pub(crate) fn of_this_process() -> io::Result<Vec<PathBuf>> {
    Ok(own(
        &fs::read_to_string("/proc/self/cgroup")?,
        Path::new(MOUNT),
    ))
}

/// Makes a cgroup of this name in every hierarchy, and returns them.
pub(crate) fn create(name: &str) -> io::Result<Vec<PathBuf>> {
    create_below(&of_this_process()?, name)
}

/// Makes all or none.
fn create_below(parents: &[PathBuf], name: &str) -> io::Result<Vec<PathBuf>> {
    let mut created = Vec::new();
    let mut create_all = || {
        parents.iter().try_for_each(|parent| {
            let cgroup = parent.join(name);
            fs::create_dir(&cgroup)?;
            created.push(cgroup.clone());
            inherit_cpuset(parent, &cgroup)
        })
    };
    match create_all() {
        Ok(()) => Ok(created),
        Err(error) => {
            remove(&created);
            Err(error)
        }
    }
}

fn inherit_cpuset(parent: &Path, cgroup: &Path) -> io::Result<()> {
    // No process can enter a cpuset without processors and memory, and a new one has none.
    for file in ["cpuset.cpus", "cpuset.mems"] {
        if let Ok(value) = fs::read_to_string(parent.join(file)) {
            fs::write(cgroup.join(file), value)?;
        }
    }
    Ok(())
}

/// Removes cgroups without processes and all below them; what still has processes stays.
pub(crate) fn remove(cgroups: &[PathBuf]) {
    for cgroup in cgroups {
        for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                remove(&[entry.path()]);
            }
        }
        let _has_processes = fs::remove_dir(cgroup);
    }
}

#[cfg(test)]
mod tests;

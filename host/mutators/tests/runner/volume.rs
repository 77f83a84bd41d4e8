//! A volume of Kubernetes, updated step by step as the kubelet's atomic writer does it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

/// A mounted volume of files, each a link into the directory that `..data` points to.
pub(crate) struct Volume {
    mount: TempDir,
    updates: AtomicU32,
}

/// The files of a volume by name.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

impl Volume {
    pub(crate) fn new(files: &Files) -> Self {
        let volume = Self {
            mount: TempDir::new().expect("a directory"),
            updates: AtomicU32::new(0),
        };
        volume.update(files, |_| {});
        volume
    }

    pub(crate) fn path(&self) -> &Path {
        self.mount.path()
    }

    /// Replaces all files. After each step `look` is called with the name of the step.
    pub(crate) fn update(&self, files: &Files, mut look: impl FnMut(&str)) {
        let at = |name: &str| self.path().join(name);
        let number = self.updates.fetch_add(1, Ordering::Relaxed);
        let old = fs::read_link(at("..data")).ok();
        let new = PathBuf::from(format!("..2026_11_21_10_00_00.{number:09}"));

        fs::create_dir(self.path().join(&new)).expect("the new directory");
        look("a directory for the new files is made");
        for (name, content) in files {
            fs::write(self.path().join(&new).join(name), content).expect("a new file");
            look("a file is written into it");
        }
        symlink(&new, at("..data_tmp")).expect("the link to be");
        look("a link to it is made");
        fs::rename(at("..data_tmp"), at("..data")).expect("the swap");
        look("the link is swapped in");
        for name in files.keys() {
            if symlink(Path::new("..data").join(name), at(name)).is_ok() {
                look("a file that is new gets its link");
            }
        }
        for entry in fs::read_dir(self.path()).expect("the mount") {
            let name = entry.expect("an entry").file_name();
            let name = name.to_str().expect("a name that we made");
            if !name.starts_with("..") && !files.contains_key(name) {
                fs::remove_file(at(name)).expect("a link of ours");
                look("a file that is no longer there loses its link");
            }
        }
        if let Some(old) = old {
            fs::remove_dir_all(self.path().join(old)).expect("the old directory");
            look("the old directory is removed");
        }
    }
}

//! The directory of the plugins, like a volume whose content the kubelet swaps as a whole.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Adds a label: pairs of a line in the manifest and the text to insert after it. The labels plugin comes first there.
const MORE: [(&str, &str); 2] = [
    ("  allow:\n", "  - /metadata/labels/shown-by\n"),
    (
        "    labels:\n",
        "    - key: shown-by\n      value: hot-reload\n",
    ),
];

/// One more plugin at the end of the chain.
const FOR_BROWSERS: &str = "\
- name: browsers-only
  file: labels.wasm.gz
  allow: [/metadata/labels]
  match: { kinds: [Browser] }
  config: { labels: [{ key: only, value: browsers }] }
";

/// A mounted bundle of plugins.
pub(crate) struct Volume {
    mount: PathBuf,
    bundle: PathBuf,
}

impl Volume {
    /// Mounts a copy of the bundle, so that changing a plugin does not change the build.
    pub(crate) fn mount(bundle: &Path, mount: PathBuf) -> Result<Self> {
        if mount.exists() {
            fs::remove_dir_all(&mount).with_context(|| mount.display().to_string())?;
        }
        fs::create_dir_all(&mount).with_context(|| mount.display().to_string())?;
        let volume = Self {
            mount,
            bundle: bundle.to_owned(),
        };
        volume.swap("1", |_| Ok(()))?;
        Ok(volume)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.mount
    }

    /// Makes the labels plugin write one more label.
    pub(crate) fn add_label(&self) -> Result<()> {
        self.swap("2", |files| {
            let path = files.join("chain.yaml");
            let mut text = fs::read_to_string(&path)?;
            add_label(&path, &mut text)?;
            Ok(fs::write(path, text)?)
        })
    }

    /// Adds the labels plugin once more, for Browsers alone.
    pub(crate) fn add_plugin_for_browsers(&self) -> Result<()> {
        self.swap("4", |files| {
            let path = files.join("chain.yaml");
            let mut text = fs::read_to_string(&path)?;
            add_label(&path, &mut text)?;
            text.push_str(FOR_BROWSERS);
            Ok(fs::write(path, text)?)
        })
    }

    /// Cuts a plugin's file in half.
    pub(crate) fn truncate_plugin(&self) -> Result<()> {
        self.swap("3", |files| {
            let path = files.join("hardening.wasm.gz");
            let bytes = fs::read(&path)?;
            let half = bytes.get(..bytes.len() / 2).unwrap_or_default();
            Ok(fs::write(path, half)?)
        })
    }

    /// Works like the kubelet: writes the new files beside the old ones, renames once, then deletes the old ones.
    fn swap(&self, version: &str, change: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let current = self.mount.join("..data");
        let old = fs::read_link(&current).ok();
        let name = format!("..{version}");
        let new = self.mount.join(&name);
        fs::create_dir(&new)?;
        let files: Vec<_> = fs::read_dir(&self.bundle)?.collect::<Result<_, _>>()?;
        for file in &files {
            fs::copy(file.path(), new.join(file.file_name()))?;
        }
        change(&new)?;
        let next = self.mount.join("..data_tmp");
        symlink(&name, &next)?;
        fs::rename(&next, &current)?;
        for file in &files {
            let link = self.mount.join(file.file_name());
            if !link.is_symlink() {
                symlink(Path::new("..data").join(file.file_name()), link)?;
            }
        }
        if let Some(old) = old {
            fs::remove_dir_all(self.mount.join(old))?;
        }
        Ok(())
    }
}

/// Makes the labels plugin write one more label.
fn add_label(path: &Path, manifest: &mut String) -> Result<()> {
    for (list, more) in MORE {
        let Some(start) = manifest.find(list) else {
            bail!("{} has no {}", path.display(), list.trim());
        };
        manifest.insert_str(start + list.len(), more);
    }
    Ok(())
}

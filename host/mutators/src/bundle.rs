//! A plugin directory, read as one consistent snapshot.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use podloom_mutation::show_bytes;

use crate::file::or_large;
use crate::limits::{BUNDLE_BYTES, MANIFEST_BYTES, SIGNATURE_BYTES};
use crate::manifest::{self, FileName, MANIFEST, Manifest, PluginEntry};
use crate::text;

/// The symbolic link that the kubelet swaps to update a volume atomically.
pub(crate) const SWAPPED: &str = "..data";
/// The file beside the manifest that holds its signature.
pub const SIGNATURE: &str = "chain.yaml.sig";
/// How often a directory that changes while it is read is read again before reading fails.
const ATTEMPTS: usize = 5;

/// Why a directory is not a bundle.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The directory cannot be opened.
    #[error("cannot open the plugin directory {}", .path.display())]
    Open {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The manifest or a plugin's file cannot be read.
    #[error("{message}")]
    Read {
        /// Which file.
        message: String,
        /// Why.
        source: io::Error,
    },
    /// The manifest is invalid.
    #[error("{}: {problem}", .path.display())]
    Manifest {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it. It is part of the message, not its source.
        problem: String,
    },
    /// A file is missing or too large.
    #[error("{0}")]
    File(String),
    /// It changed during each attempt to read it.
    #[error(
        "the plugin directory {} kept changing while it was read; stop writing to it for a moment",
        .path.display()
    )]
    Unstable {
        /// The directory.
        path: PathBuf,
    },
}

impl BundleError {
    /// Whether reading failed, which may pass by itself, as opposed to a wrong content, which somebody must change.
    pub(crate) fn is_of_the_disk(&self) -> bool {
        match self {
            Self::Open { .. } | Self::Unstable { .. } => true,
            Self::Read { source, .. } => source.kind() != NOT_A_FILE,
            _ => false,
        }
    }

    fn no_file(entry: &PluginEntry, present: &[String]) -> Self {
        let (line, plugin, file) = (entry.line(), &entry.name.value.0, &entry.file.0);
        Self::File(format!(
            "{MANIFEST}:{line}: plugin {plugin} names the file {file}, which is not in the bundle; the bundle holds {}",
            text::list(present)
        ))
    }
}

/// A manifest and the files that it names, read as one consistent snapshot.
#[derive(Clone, Debug)]
pub struct Bundle {
    text: Arc<[u8]>,
    /// The signature of the text, as its file holds it.
    signature: Option<Arc<[u8]>>,
    pub(crate) manifest: Manifest,
    pub(crate) files: BTreeMap<FileName, Arc<[u8]>>,
}

impl Bundle {
    /// Reads a directory: its manifest, and the files that the manifest names.
    ///
    /// A volume of the kubelet is read through the directory that `..data` points to. If that is removed meanwhile, reading starts
    /// again. Symbolic links are followed within the directory, and refused if they lead out of it.
    ///
    /// # Errors
    /// If the directory is not a bundle, its manifest is invalid or a file is missing. The content of plugin files is not checked.
    pub fn read(directory: &Path) -> Result<Self, BundleError> {
        for _ in 0..ATTEMPTS {
            let root = resolve(directory)?;
            match read_at(&root, directory) {
                Err(_) if resolve(directory).is_ok_and(|now| now != root) => {}
                read => return read,
            }
        }
        Err(BundleError::Unstable {
            path: directory.to_owned(),
        })
    }

    /// Creates a bundle in memory from a manifest's text and files by name.
    ///
    /// # Errors
    /// If the manifest is invalid, or names a file that is not given.
    pub fn from_parts(
        manifest: &str,
        files: impl IntoIterator<Item = (String, Vec<u8>)>,
    ) -> Result<Self, BundleError> {
        let text: Arc<[u8]> = manifest.as_bytes().into();
        let manifest = Manifest::parse(&text).map_err(|problem| BundleError::Manifest {
            path: PathBuf::new(),
            problem,
        })?;
        let given = files.into_iter().map(|(name, bytes)| (name, bytes.into()));
        let mut given: BTreeMap<String, Arc<[u8]>> = given.collect();
        let names: Vec<String> = given.keys().cloned().collect();
        Self::of((text, None), manifest, |entry| {
            let file = given.remove(&entry.file.0);
            file.ok_or_else(|| BundleError::no_file(entry, &names))
        })
    }

    /// Gets each file once.
    fn of(
        (text, signature): (Arc<[u8]>, Option<Arc<[u8]>>),
        manifest: Manifest,
        mut file: impl FnMut(&PluginEntry) -> Result<Arc<[u8]>, BundleError>,
    ) -> Result<Self, BundleError> {
        let mut files = BTreeMap::new();
        for entry in &manifest.plugins {
            if !files.contains_key(&entry.file) {
                files.insert(entry.file.clone(), file(entry)?);
            }
        }
        Ok(Self {
            text,
            signature,
            manifest,
            files,
        })
    }

    /// The same bundle, with a chain without this plugin. The text of the manifest stays as it is.
    #[must_use]
    pub fn without(&self, plugin: &str) -> Self {
        let mut rest = self.clone();
        let plugins = &mut rest.manifest.plugins;
        plugins.retain(|entry| entry.name.value.0 != plugin);
        rest
    }

    /// The text of the manifest.
    pub fn manifest(&self) -> &[u8] {
        &self.text
    }

    /// The content of the file with the manifest's signature, if there is one.
    pub fn signature(&self) -> Option<&[u8]> {
        self.signature.as_deref()
    }

    /// The files that the manifest names, each once, by name.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files
            .iter()
            .map(|(name, bytes)| (name.0.as_str(), &**bytes))
    }
}

fn resolve(directory: &Path) -> Result<PathBuf, BundleError> {
    let failed = |source| BundleError::Open {
        path: directory.to_owned(),
        source,
    };
    let listed = directory.metadata().map_err(failed)?;
    if !listed.is_dir() {
        return Err(failed(io::ErrorKind::NotADirectory.into()));
    }
    let itself = directory.canonicalize().map_err(failed)?;
    match itself.join(SWAPPED).canonicalize() {
        Ok(root) if root.starts_with(&itself) => Ok(root),
        Ok(_) => Err(failed(leads_out())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(itself),
        Err(error) => Err(failed(error)),
    }
}

fn read_at(root: &Path, directory: &Path) -> Result<Bundle, BundleError> {
    let text = read(root, MANIFEST, MANIFEST_BYTES).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => BundleError::File(format!(
            "{} holds no {MANIFEST}, so it is not a plugin bundle; for a chain without plugins, add a {MANIFEST} with `plugins: []`",
            directory.display()
        )),
        _ => {
            let message = format!("cannot read {}", directory.join(MANIFEST).display());
            BundleError::Read { message, source }
        }
    })?;
    let wrong = |problem| BundleError::Manifest {
        path: directory.to_owned(),
        problem,
    };
    let text: Arc<[u8]> = text.ok_or_else(|| wrong(manifest::too_large()))?.into();
    let manifest = Manifest::parse(&text).map_err(wrong)?;
    // What cannot be read is no signature: only those who ask for one look at it, and they hear that there is none.
    let signature = read(root, SIGNATURE, SIGNATURE_BYTES);
    let signature = signature.ok().flatten().map(Into::into);
    let mut bytes = 0_usize;
    Bundle::of((text, signature), manifest, |entry| {
        let file = read_plugin(root, entry)?;
        bytes += file.len();
        match bytes {
            0..=BUNDLE_BYTES => Ok(file),
            _ => Err(BundleError::File(format!(
                "{MANIFEST}:{}: with the file {} of plugin {} the bundle is larger than {}; compress its plugins, or remove some",
                entry.line(),
                entry.file.0,
                entry.name.value.0,
                show_bytes(BUNDLE_BYTES)
            ))),
        }
    })
}

fn read_plugin(root: &Path, entry: &PluginEntry) -> Result<Arc<[u8]>, BundleError> {
    let (line, plugin, file) = (entry.line(), &entry.name.value.0, &entry.file.0);
    let size = entry.limits.size;
    match read(root, file, size.shipped_bytes()) {
        Ok(Some(bytes)) => Ok(bytes.into()),
        Ok(None) => Err(BundleError::File(format!(
            "{MANIFEST}:{line}: the file {file} of plugin {plugin} is larger than {}{}",
            show_bytes(size.shipped_bytes()),
            or_large(size)
        ))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(BundleError::no_file(entry, &plugin_files(root)))
        }
        Err(source) => {
            let message =
                format!("{MANIFEST}:{line}: cannot read the file {file} of plugin {plugin}");
            Err(BundleError::Read { message, source })
        }
    }
}

fn plugin_files(root: &Path) -> Vec<String> {
    let entries = root.read_dir().into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names
        .filter(|name| name.ends_with(".wasm") || name.ends_with(".wasm.gz"))
        .collect();
    names.sort_unstable();
    names
}

/// The error kind for something that is not a regular file in the directory.
const NOT_A_FILE: io::ErrorKind = io::ErrorKind::InvalidInput;

/// Reads a regular file of at most `cap` bytes in a directory, which is given by its canonical path; `None` if the file is larger,
/// whatever its metadata says.
///
/// Links are followed as long as they stay in the directory. The opened file is checked, not only its name, since the name may lead
/// elsewhere by then: it must be the file that is in the directory now. If the directory was replaced meanwhile, it counts as
/// not found.
fn read(directory: &Path, name: &str, cap: usize) -> io::Result<Option<Vec<u8>>> {
    let named = directory.join(name);
    let file = open(&named)?;
    let opened = file.metadata()?;
    if !opened.is_file() {
        return Err(io::Error::new(NOT_A_FILE, "not a regular file"));
    }
    if fs::canonicalize(directory)? != directory {
        return Err(io::ErrorKind::NotFound.into());
    }
    let path = fs::canonicalize(&named)?;
    if !path.starts_with(directory) {
        return Err(leads_out());
    }
    let there = fs::symlink_metadata(&path)?;
    if (there.dev(), there.ino()) != (opened.dev(), opened.ino()) {
        return Err(io::ErrorKind::NotFound.into());
    }
    let mut bytes = Vec::new();
    file.take(cap as u64 + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() <= cap).then_some(bytes))
}

/// The error for a link that leads out of the directory.
fn leads_out() -> io::Error {
    io::Error::new(
        NOT_A_FILE,
        "a symbolic link that leads out of the plugin directory; put the file itself there",
    )
}

/// Opens without blocking, even if it is a pipe that nobody writes to.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
}

#[cfg(test)]
mod tests;

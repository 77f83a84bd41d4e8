//! The files of an image, packed into one compressed tar archive.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use flate2::{Compression, GzBuilder};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

use crate::ImageError;
use crate::layout::hex;

/// The files of an image, by their paths in it.
#[derive(Clone, Debug, Default)]
pub struct Layer {
    files: BTreeMap<String, Content>,
}

/// What a file of an image holds.
#[derive(Clone, Debug)]
enum Content {
    /// What this file of the machine holds.
    Of(PathBuf),
    Bytes(Vec<u8>),
}

/// A layer as it is stored in the archive.
pub(crate) struct Packed {
    /// Compressed with gzip.
    pub(crate) bytes: Vec<u8>,
    /// The digest of the tar archive before compression, which identifies the files whatever the compression is.
    pub(crate) diff_id: String,
}

impl Layer {
    /// Adds a file, or a directory with everything in it, under a path of the image. Links are followed.
    ///
    /// A later file replaces an earlier one with the same path.
    ///
    /// # Errors
    ///
    /// Fails if something cannot be read, or is neither a file nor a directory, or if a path in the image is not usable.
    pub fn add(&mut self, from: &Path, to: &str) -> Result<(), ImageError> {
        let in_file = |source| ImageError::File {
            path: from.to_owned(),
            source,
        };
        let kind = fs::metadata(from).map_err(in_file)?.file_type();
        if kind.is_dir() {
            for entry in fs::read_dir(from).map_err(in_file)? {
                let path = entry.map_err(in_file)?.path();
                let name = path.file_name().and_then(|name| name.to_str());
                let name = name.ok_or_else(|| ImageError::Name(path.clone()))?;
                self.add(&path, &format!("{to}/{name}"))?;
            }
            return Ok(());
        }
        if !kind.is_file() {
            return Err(ImageError::Special(from.to_owned()));
        }
        self.files.insert(normal(to)?, Content::Of(from.to_owned()));
        Ok(())
    }

    /// Adds a file with these bytes under a path of the image.
    ///
    /// # Errors
    ///
    /// Fails if the path is not usable.
    pub fn add_bytes(&mut self, bytes: Vec<u8>, to: &str) -> Result<(), ImageError> {
        self.files.insert(normal(to)?, Content::Bytes(bytes));
        Ok(())
    }

    pub(crate) fn pack(&self) -> Result<Packed, ImageError> {
        // The crate writes no time and no name into gzip's header.
        let gzip = GzBuilder::new().write(Vec::new(), Compression::default());
        let mut tar = Builder::new(Hashing {
            inner: gzip,
            hash: Sha256::new(),
        });
        let mut directories = BTreeSet::new();
        for (path, content) in &self.files {
            let in_file = |source| ImageError::File {
                path: match content {
                    Content::Of(file) => file.clone(),
                    Content::Bytes(_) => PathBuf::from(path),
                },
                source,
            };
            append_parents(&mut tar, path, &mut directories).map_err(in_file)?;
            match content {
                Content::Of(file) => append_file(&mut tar, path, file),
                Content::Bytes(bytes) => append_bytes(&mut tar, path, bytes),
            }
            .map_err(in_file)?;
        }
        let in_memory = |source| ImageError::File {
            path: PathBuf::from("the layer in memory"),
            source,
        };
        let hashing = tar.into_inner().map_err(in_memory)?;
        Ok(Packed {
            diff_id: format!("sha256:{}", hex(&hashing.hash.finalize())),
            bytes: hashing.inner.finish().map_err(in_memory)?,
        })
    }
}

/// A path without a leading slash and empty parts.
fn normal(path: &str) -> Result<String, ImageError> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if parts.is_empty() || parts.iter().any(|part| matches!(*part, "." | "..")) {
        return Err(ImageError::Path(path.to_owned()));
    }
    Ok(parts.join("/"))
}

/// Everybody can read everything in the image; what can be run here can be run there.
fn append_file<W: Write>(tar: &mut Builder<W>, path: &str, file: &Path) -> io::Result<()> {
    let mut content = File::open(file)?;
    let metadata = content.metadata()?;
    let is_program = metadata.permissions().mode() & 0o111 != 0;
    let mut header = header(EntryType::Regular, if is_program { 0o755 } else { 0o644 });
    header.set_size(metadata.len());
    tar.append_data(&mut header, path, &mut content)
}

fn append_bytes<W: Write>(tar: &mut Builder<W>, path: &str, bytes: &[u8]) -> io::Result<()> {
    let mut header = header(EntryType::Regular, 0o644);
    header.set_size(bytes.len() as u64);
    tar.append_data(&mut header, path, bytes)
}

fn append_parents<W: Write>(
    tar: &mut Builder<W>,
    path: &str,
    known: &mut BTreeSet<String>,
) -> io::Result<()> {
    for (end, _) in path.match_indices('/') {
        let directory = path.get(..end).unwrap_or_default();
        if known.insert(directory.to_owned()) {
            let mut header = header(EntryType::Directory, 0o755);
            header.set_size(0);
            tar.append_data(&mut header, format!("{directory}/"), io::empty())?;
        }
    }
    Ok(())
}

/// A header that belongs to root and has no time.
pub(crate) fn header(kind: EntryType, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

/// Computes the digest of what passes through.
struct Hashing<W> {
    inner: W,
    hash: Sha256,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

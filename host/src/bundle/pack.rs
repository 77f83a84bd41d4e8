//! Compresses the plugins that are not compressed yet.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use podloom_mutators::{Bundle, MANIFEST, SIGNATURE, sha256};

use super::manifest::{self, Change, Changes};
use super::{File, Original, PackedBundle};
use crate::error::{CommandError, Diagnostic};

const GZIP: &[u8] = &[0x1f, 0x8b];

/// Compresses the plugins of a bundle, and updates their names and digests in its manifest.
pub(super) fn pack(directory: &Path, bundle: &Bundle) -> Result<PackedBundle, CommandError> {
    let text = std::str::from_utf8(bundle.manifest()).context("the manifest is not UTF-8")?;
    let pinned = manifest::pinned_files(text);
    let mut plugins = BTreeMap::new();
    let mut changes = Changes::new();
    let mut errors = Vec::new();
    for (name, bytes) in bundle.files() {
        let is_pinned = pinned.iter().any(|file| file == name);
        let file = pack_file(name, bytes, is_pinned)?;
        if file.original.is_some() {
            changes.insert(
                name.to_owned(),
                Change {
                    name: file.name.clone(),
                    sha256: sha256(&file.bytes),
                },
            );
        }
        if let Some(other) = plugins.insert(file.name.clone(), file) {
            errors.push(Diagnostic::new(taken(directory, &other.name)));
        }
    }
    if !errors.is_empty() {
        return Err(CommandError::Invalid(errors));
    }
    if bundle.signature().is_some() && !changes.is_empty() {
        return Err(CommandError::invalid(signed(directory, &changes)));
    }
    let text = manifest::change(text, &changes)
        .map_err(|manifest::NotInPlace| CommandError::invalid(not_in_place(directory, &changes)))?;
    Ok(PackedBundle {
        manifest: File {
            name: MANIFEST.to_owned(),
            bytes: text.into_bytes(),
            is_pinned: false,
            original: None,
        },
        signature: bundle.signature().map(|bytes| File {
            name: SIGNATURE.to_owned(),
            bytes: bytes.to_owned(),
            is_pinned: false,
            original: None,
        }),
        plugins: plugins.into_values().collect(),
    })
}

/// The content decides whether a file is compressed, not the name. The loader does the same.
fn pack_file(name: &str, bytes: &[u8], is_pinned: bool) -> anyhow::Result<File> {
    let kept = File {
        name: name.to_owned(),
        bytes: bytes.to_owned(),
        is_pinned,
        original: None,
    };
    if bytes.starts_with(GZIP) {
        return Ok(kept);
    }
    let smaller = gzip(bytes).with_context(|| format!("could not compress {name}"))?;
    if smaller.len() >= bytes.len() {
        return Ok(kept);
    }
    let stem = name.strip_suffix(".gz").unwrap_or(name);
    Ok(File {
        name: format!("{stem}.gz"),
        bytes: smaller,
        is_pinned,
        original: Some(Original {
            name: kept.name,
            bytes: bytes.len(),
        }),
    })
}

/// Compresses bytes. The result contains neither name nor time, so equal input gives equal output.
pub(crate) fn gzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut packed = Vec::new();
    let options = zopfli::Options::default();
    zopfli::compress(options, zopfli::Format::Gzip, bytes, &mut packed)?;
    Ok(packed)
}

fn taken(directory: &Path, name: &str) -> String {
    let plain = name.strip_suffix(".gz").unwrap_or(name);
    format!(
        "{}/{MANIFEST}: {plain} would be compressed to {name}, but another plugin has a file of that name; rename one of them",
        directory.display()
    )
}

fn signed(directory: &Path, changes: &Changes) -> String {
    let names: Vec<&str> = changes.keys().map(String::as_str).collect();
    format!(
        "{}/{MANIFEST}: it is signed, and compressing {} would change it; compress the files yourself, for example with gzip -9, \
         write their names and digests into {MANIFEST}, and sign it again",
        directory.display(),
        names.join(", ")
    )
}

fn not_in_place(directory: &Path, changes: &Changes) -> String {
    let names: Vec<&str> = changes.keys().map(String::as_str).collect();
    format!(
        "{}/{MANIFEST}: cannot write the new names and digests of the compressed files of {}; write `file` and `sha256` as plain \
         values without anchors, or compress the files yourself",
        directory.display(),
        names.join(", ")
    )
}

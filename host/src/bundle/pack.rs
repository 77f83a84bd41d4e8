//! Compresses the plugins that are not compressed yet.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use podloom_mutators::{Bundle, MANIFEST, SIGNATURE, sha256};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_saphyr::{Location, Spanned};

use super::{File, Original, PackedBundle};
use crate::error::{CommandError, Diagnostic};

const GZIP: &[u8] = &[0x1f, 0x8b];

/// Compresses the plugins of a bundle, and updates their names and digests in its manifest.
pub(super) fn pack(directory: &Path, bundle: &Bundle) -> Result<PackedBundle, CommandError> {
    let text = std::str::from_utf8(bundle.manifest()).context("the manifest is not UTF-8")?;
    let pinned = pinned_files(text);
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
    let text = change(text, &changes)
        .map_err(|NotInPlace| CommandError::invalid(not_in_place(directory, &changes)))?;
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

// Changes file names and digests in the text of chain.yaml, and keeps everything else: comments, order, style.

/// The new name and digest of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// The new name.
    pub(super) name: String,
    /// The digest of the new content, in hexadecimal.
    pub(super) sha256: String,
}

/// The changes, by the names that the files have in the manifest so far.
pub(super) type Changes = BTreeMap<String, Change>;

/// A name or digest is written in a way that cannot be changed in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotInPlace;

/// The part of a manifest that names files.
#[derive(Deserialize)]
struct Manifest {
    plugins: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    file: Spanned<String>,
    #[serde(default)]
    sha256: Option<Spanned<String>>,
}

/// Returns the text of the manifest with the changes.
///
/// The new text is parsed again and must differ from the old one only in these files. So a name that is written in an unexpected way
/// is an error, never a wrong manifest.
pub(super) fn change(text: &str, changes: &Changes) -> Result<String, NotInPlace> {
    let mut expected = read::<Value>(text)?;
    expect(&mut expected, changes);
    // First try to replace an alias itself and keep its anchor. A value that `<<` merged in has to be changed where it is defined.
    let candidates: [LocationOf; 2] = [|value| value.referenced, |value| value.defined];
    candidates
        .into_iter()
        .filter_map(|location_of| edit(text, changes, location_of).ok())
        .find(|changed| read::<Value>(changed).is_ok_and(|read| read == expected))
        .ok_or(NotInPlace)
}

/// Selects one of the two locations of a value: where an alias is used, or where the value is defined.
type LocationOf = fn(&Spanned<String>) -> Location;

/// Writes the new names and digests over the old ones.
fn edit(text: &str, changes: &Changes, location_of: LocationOf) -> Result<String, NotInPlace> {
    let mut edits = BTreeMap::new();
    for entry in read::<Manifest>(text)?.plugins {
        let Some(change) = changes.get(&entry.file.value) else {
            continue;
        };
        edits.insert(span(location_of(&entry.file))?, change.name.clone());
        if let Some(pin) = entry.sha256 {
            edits.insert(span(location_of(&pin))?, pinned(&pin.value, change));
        }
    }
    let mut changed = text.to_owned();
    // From the end, so that the offsets of earlier edits stay valid.
    for ((start, end), new) in edits.into_iter().rev() {
        if start == end || changed.get(start..end).is_none() {
            return Err(NotInPlace);
        }
        changed.replace_range(start..end, &new);
    }
    Ok(changed)
}

/// The files that have a `sha256`.
pub(super) fn pinned_files(text: &str) -> Vec<String> {
    let entries = read::<Manifest>(text).map(|manifest| manifest.plugins);
    entries
        .unwrap_or_default()
        .into_iter()
        .filter(|entry| entry.sha256.is_some())
        .map(|entry| entry.file.value)
        .collect()
}

/// Parses a valid manifest, with the same YAML options as the loader.
fn read<T: DeserializeOwned>(text: &str) -> Result<T, NotInPlace> {
    let options = serde_saphyr::options! { strict_booleans: false, legacy_octal_numbers: true };
    let documents = serde_saphyr::from_multiple_with_options::<Option<T>>(text, options);
    documents
        .unwrap_or_default()
        .pop()
        .flatten()
        .ok_or(NotInPlace)
}

/// The start and end of a value, in bytes.
fn span(location: Location) -> Result<(usize, usize), NotInPlace> {
    let span = location.span();
    let offset = span.byte_offset().ok_or(NotInPlace)?;
    let length = span.byte_len().ok_or(NotInPlace)?;
    let start = usize::try_from(offset).map_err(|_| NotInPlace)?;
    let length = usize::try_from(length).map_err(|_| NotInPlace)?;
    Ok((start, start.saturating_add(length)))
}

/// The new digest, with the prefix that the old one has.
fn pinned(old: &str, change: &Change) -> String {
    let prefix = if old.starts_with("sha256:") {
        "sha256:"
    } else {
        ""
    };
    format!("{prefix}{}", change.sha256)
}

/// Applies the changes to the parsed manifest.
fn expect(manifest: &mut Value, changes: &Changes) {
    let plugins = manifest.get_mut("plugins").and_then(Value::as_array_mut);
    for plugin in plugins.into_iter().flatten() {
        let file = plugin.get("file").and_then(Value::as_str);
        let Some(change) = file.and_then(|file| changes.get(file)) else {
            continue;
        };
        if let Some(name) = plugin.get_mut("file") {
            *name = Value::from(change.name.as_str());
        }
        if let Some(Value::String(pin)) = plugin.get_mut("sha256") {
            *pin = pinned(pin, change);
        }
    }
}

#[cfg(test)]
mod tests;

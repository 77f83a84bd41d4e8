//! Changes file names and digests in the text of chain.yaml, and keeps everything else: comments, order, style.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_saphyr::{Location, Spanned};

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

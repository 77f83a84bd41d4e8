//! Changes the names and pins of files in the text of a manifest, and nothing else of it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_saphyr::{Location, Spanned};

/// What becomes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// Its name from now on.
    pub(super) name: String,
    /// The digest of its new content, in hexadecimal.
    pub(super) sha256: String,
}

/// What is changed, by the names that the files have in the manifest.
pub(super) type Changes = BTreeMap<String, Change>;

/// Names or pins that are written so that they cannot be changed where they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotInPlace;

/// A manifest, as far as files go.
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

/// The manifest with other files.
///
/// The new text is read again, and has to hold what the old one held but for these files: a name that is written in a way that
/// was not thought of is refused rather than shipped wrong.
pub(super) fn change(text: &str, changes: &Changes) -> Result<String, NotInPlace> {
    let mut expected = read::<Value>(text)?;
    expect(&mut expected, changes);
    // An alias gives way to the new name, and its anchor stays; what `<<` brought in is changed where it came from.
    let places: [Place; 2] = [|value| value.referenced, |value| value.defined];
    places
        .into_iter()
        .filter_map(|place| edit(text, changes, place).ok())
        .find(|changed| read::<Value>(changed).is_ok_and(|read| read == expected))
        .ok_or(NotInPlace)
}

/// Of the places that a value has, one.
type Place = fn(&Spanned<String>) -> Location;

/// Writes the new names and pins over the old ones.
fn edit(text: &str, changes: &Changes, place: Place) -> Result<String, NotInPlace> {
    let mut edits = BTreeMap::new();
    for entry in read::<Manifest>(text)?.plugins {
        let Some(change) = changes.get(&entry.file.value) else {
            continue;
        };
        edits.insert(span(place(&entry.file))?, change.name.clone());
        if let Some(pin) = entry.sha256 {
            edits.insert(span(place(&pin))?, pinned(&pin.value, change));
        }
    }
    let mut changed = text.to_owned();
    // From the end, so that the places before stay what they were.
    for ((start, end), new) in edits.into_iter().rev() {
        if start == end || changed.get(start..end).is_none() {
            return Err(NotInPlace);
        }
        changed.replace_range(start..end, &new);
    }
    Ok(changed)
}

/// The files that are held to a digest.
pub(super) fn pinned_files(text: &str) -> Vec<String> {
    let entries = read::<Manifest>(text).map(|manifest| manifest.plugins);
    entries
        .unwrap_or_default()
        .into_iter()
        .filter(|entry| entry.sha256.is_some())
        .map(|entry| entry.file.value)
        .collect()
}

/// Reads the one document of a manifest that is known to be good, by the rules that manifests are read by.
fn read<T: DeserializeOwned>(text: &str) -> Result<T, NotInPlace> {
    let options = serde_saphyr::options! { strict_booleans: false, legacy_octal_numbers: true };
    let documents = serde_saphyr::from_multiple_with_options::<Option<T>>(text, options);
    documents
        .unwrap_or_default()
        .pop()
        .flatten()
        .ok_or(NotInPlace)
}

/// From where to where a value stands, in bytes.
fn span(location: Location) -> Result<(usize, usize), NotInPlace> {
    let span = location.span();
    let offset = span.byte_offset().ok_or(NotInPlace)?;
    let length = span.byte_len().ok_or(NotInPlace)?;
    let start = usize::try_from(offset).map_err(|_| NotInPlace)?;
    let length = usize::try_from(length).map_err(|_| NotInPlace)?;
    Ok((start, start.saturating_add(length)))
}

/// A pin in the form that the old one has.
fn pinned(old: &str, change: &Change) -> String {
    let prefix = if old.starts_with("sha256:") {
        "sha256:"
    } else {
        ""
    };
    format!("{prefix}{}", change.sha256)
}

/// Changes what was read as the text should have been changed.
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

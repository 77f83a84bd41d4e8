//! Changes `allow` and `read` in the text of chain.yaml, and keeps everything else: comments, order, style.

mod list;

use std::ops::Range;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use serde_saphyr::{Location, Spanned};

use self::list::{change_list, end_of, insert_read};

/// What becomes of a list of paths: for each entry, in order, what stands in its place.
pub(super) type Replaced = Vec<Vec<String>>;

/// What is changed for one plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PluginEdit {
    /// None if it stays as it is.
    pub(super) allow: Option<Replaced>,
    /// None if it stays as it is, or is not there.
    pub(super) read: Option<Replaced>,
    /// A list that was not there before.
    pub(super) new_read: Option<Vec<String>>,
}

/// The lists are written in a way that cannot be changed in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotInPlace;

/// The part of a manifest that grants paths.
#[derive(Deserialize)]
struct Manifest {
    plugins: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    allow: Option<Vec<Spanned<String>>>,
    #[serde(default)]
    read: Option<Vec<Spanned<String>>>,
}

/// A piece of the text, and what stands there instead.
type TextEdit = (Range<usize>, String);

/// Which plugins have a list `read` of their own.
pub(super) fn have_read(text: &str) -> Vec<bool> {
    let plugins = read::<Manifest>(text).map(|manifest| manifest.plugins);
    let plugins = plugins.unwrap_or_default().into_iter();
    plugins.map(|entry| entry.read.is_some()).collect()
}

/// Returns the text of the manifest with the changes, one for each plugin.
///
/// The new text is parsed again, and must mean exactly what it meant before but for these lists.
pub(super) fn change(text: &str, changes: &[PluginEdit]) -> Result<String, NotInPlace> {
    let mut edits: Vec<TextEdit> = Vec::new();
    for (entry, change) in read::<Manifest>(text)?.plugins.iter().zip(changes) {
        let allow = spans(entry.allow.as_deref().unwrap_or_default())?;
        if let Some(replaced) = &change.allow {
            edits.extend(change_list(text, "allow", &allow, replaced)?);
        }
        if let Some(replaced) = &change.read {
            let read = spans(entry.read.as_deref().unwrap_or_default())?;
            edits.extend(change_list(text, "read", &read, replaced)?);
        }
        if let Some(paths) = &change.new_read {
            edits.push(insert_read(text, end_of(text, "allow", &allow)?, paths));
        }
    }
    edits.sort_by_key(|(range, _)| (range.start, range.end));
    let mut changed = text.to_owned();
    let mut before = text.len();
    // From the end, so that the offsets of earlier edits stay valid.
    for (range, new) in edits.into_iter().rev() {
        if range.end > before || changed.get(range.clone()).is_none() {
            return Err(NotInPlace);
        }
        before = range.start;
        changed.replace_range(range, &new);
    }
    let mut expected = read::<Value>(text)?;
    expect(&mut expected, changes);
    match read::<Value>(&changed)? == expected {
        true => Ok(changed),
        false => Err(NotInPlace),
    }
}

/// Applies the changes to the parsed manifest.
fn expect(manifest: &mut Value, changes: &[PluginEdit]) {
    let plugins = manifest.get_mut("plugins").and_then(Value::as_array_mut);
    for (plugin, change) in plugins.into_iter().flatten().zip(changes) {
        let lists = [
            (
                "allow",
                change.allow.as_ref().map(|replaced| replaced.concat()),
            ),
            (
                "read",
                change.read.as_ref().map(|replaced| replaced.concat()),
            ),
            ("read", change.new_read.clone()),
        ];
        for (key, list) in lists {
            if let (Some(list), Some(fields)) = (list, plugin.as_object_mut()) {
                fields.insert(key.to_owned(), json!(list));
            }
        }
    }
}

/// Parses a valid manifest, with the same YAML options as the loader.
fn read<T: DeserializeOwned>(text: &str) -> Result<T, NotInPlace> {
    let options = serde_saphyr::options! { strict_booleans: false, legacy_octal_numbers: true };
    let documents = serde_saphyr::from_multiple_with_options::<Option<T>>(text, options);
    let document = documents.unwrap_or_default().pop();
    document.flatten().ok_or(NotInPlace)
}

/// Where the entries of a list stand, in bytes.
fn spans(list: &[Spanned<String>]) -> Result<Vec<Range<usize>>, NotInPlace> {
    list.iter().map(|entry| span(entry.referenced)).collect()
}

fn span(location: Location) -> Result<Range<usize>, NotInPlace> {
    let span = location.span();
    let start = span.byte_offset().ok_or(NotInPlace)?;
    let length = span.byte_len().ok_or(NotInPlace)?;
    let start = usize::try_from(start).map_err(|_| NotInPlace)?;
    let length = usize::try_from(length).map_err(|_| NotInPlace)?;
    match length {
        0 => Err(NotInPlace),
        _ => Ok(start..start.saturating_add(length)),
    }
}

#[cfg(test)]
mod tests;

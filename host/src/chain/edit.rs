//! Changes the text of chain.yaml, and keeps everything else: comments, order, style.
//!
//! The new text is parsed again and must mean exactly what it meant before but for the changes. So what is written in an unexpected way
//! gives no text, never a wrong manifest.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use serde_saphyr::{Location, Spanned};

/// The part of a manifest that names files and grants paths.
#[derive(Deserialize)]
struct Manifest {
    plugins: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    file: Option<Spanned<String>>,
    #[serde(default)]
    sha256: Option<Spanned<String>>,
    #[serde(default)]
    allow: Option<Vec<Spanned<String>>>,
    #[serde(default)]
    read: Option<Vec<Spanned<String>>>,
}

/// A piece of the text, and what stands there instead.
type TextEdit = (Range<usize>, String);

/// Parses a valid manifest, with the same YAML options as the loader.
fn read<T: DeserializeOwned>(text: &str) -> Option<T> {
    let options = serde_saphyr::options! { strict_booleans: false, legacy_octal_numbers: true };
    let documents = serde_saphyr::from_multiple_with_options::<Option<T>>(text, options);
    let document = documents.unwrap_or_default().pop();
    document.flatten()
}

/// The plugins of a valid manifest; none of any other.
fn entries(text: &str) -> Vec<Entry> {
    read::<Manifest>(text).map_or_else(Vec::new, |manifest| manifest.plugins)
}

/// Where a value stands, in bytes.
fn span(location: Location) -> Option<Range<usize>> {
    let span = location.span();
    let start = span.byte_offset()?;
    let length = span.byte_len()?;
    let start = usize::try_from(start).ok()?;
    let length = usize::try_from(length).ok()?;
    match length {
        0 => None,
        _ => Some(start..start.saturating_add(length)),
    }
}

/// Makes the edits, none of which may overlap another one. The result must be a manifest that means what is expected.
fn edited(text: &str, mut edits: Vec<TextEdit>, expected: &Value) -> Option<String> {
    edits.sort_by_key(|(range, _)| (range.start, range.end));
    let mut changed = text.to_owned();
    let mut before = text.len();
    // From the end, so that the offsets of earlier edits stay valid.
    for (range, new) in edits.into_iter().rev() {
        if range.end > before || changed.get(range.clone()).is_none() {
            return None;
        }
        before = range.start;
        changed.replace_range(range, &new);
    }
    match read::<Value>(&changed)? == *expected {
        true => Some(changed),
        false => None,
    }
}

// Names and digests of files.

/// The new name and digest of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewFile {
    pub(crate) name: String,
    /// The digest of the new content, in hexadecimal.
    pub(crate) sha256: String,
}

/// The new files, by the names that they have in the manifest so far.
pub(crate) type NewFiles = BTreeMap<String, NewFile>;

/// The files that have a `sha256`.
pub(crate) fn pinned_files(text: &str) -> Vec<String> {
    let pinned = entries(text)
        .into_iter()
        .filter(|entry| entry.sha256.is_some());
    pinned.filter_map(|entry| Some(entry.file?.value)).collect()
}

/// Returns the text of the manifest with the new names and digests.
pub(crate) fn rename_files(text: &str, files: &NewFiles) -> Option<String> {
    let mut expected = read::<Value>(text)?;
    let plugins = expected.get_mut("plugins").and_then(Value::as_array_mut);
    for plugin in plugins.into_iter().flatten() {
        let file = plugin.get("file").and_then(Value::as_str);
        let Some(new) = file.and_then(|file| files.get(file)) else {
            continue;
        };
        plugin["file"] = Value::from(new.name.as_str());
        if let Some(Value::String(pin)) = plugin.get_mut("sha256") {
            *pin = pinned(pin, new);
        }
    }
    // First try to replace an alias itself and keep its anchor. A value that `<<` merged in has to be changed where it is defined.
    let candidates: [LocationOf; 2] = [|value| value.referenced, |value| value.defined];
    let mut candidates = candidates.into_iter().filter_map(|location_of| {
        let edits = renamed(text, files, location_of)?;
        edited(text, edits, &expected)
    });
    candidates.next()
}

/// Selects one of the two locations of a value: where an alias is used, or where the value is defined.
type LocationOf = fn(&Spanned<String>) -> Location;

/// The edits that write the new names and digests over the old ones. Several plugins may have them from one place.
fn renamed(text: &str, files: &NewFiles, location_of: LocationOf) -> Option<Vec<TextEdit>> {
    let mut edits = BTreeMap::new();
    let mut write = |value: &Spanned<String>, new: String| -> Option<()> {
        let range = span(location_of(value))?;
        edits.insert((range.start, range.end), new);
        Some(())
    };
    for entry in entries(text) {
        let file = entry.file.as_ref();
        let Some((file, new)) = file.and_then(|it| Some((it, files.get(&it.value)?))) else {
            continue;
        };
        write(file, new.name.clone())?;
        if let Some(pin) = &entry.sha256 {
            write(pin, pinned(&pin.value, new))?;
        }
    }
    Some(
        edits
            .into_iter()
            .map(|((start, end), new)| (start..end, new))
            .collect(),
    )
}

/// The new digest, with the prefix that the old one has.
fn pinned(old: &str, new: &NewFile) -> String {
    let prefix = match old.starts_with("sha256:") {
        true => "sha256:",
        false => "",
    };
    format!("{prefix}{}", new.sha256)
}

// Lists of granted paths.

/// What becomes of a list of paths: for each entry, in order, what stands in its place.
pub(crate) type Replaced = Vec<Vec<String>>;

/// What is changed for one plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PluginEdit {
    /// None if it stays as it is.
    pub(crate) allow: Option<Replaced>,
    /// None if it stays as it is, or is not there.
    pub(crate) read: Option<Replaced>,
    /// A list that was not there before.
    pub(crate) new_read: Option<Vec<String>>,
}

/// Which plugins have a list `read` of their own.
pub(crate) fn have_read(text: &str) -> Vec<bool> {
    entries(text)
        .iter()
        .map(|entry| entry.read.is_some())
        .collect()
}

/// Returns the text of the manifest with the changes, one for each plugin.
pub(crate) fn change_grants(text: &str, changes: &[PluginEdit]) -> Option<String> {
    let mut edits: Vec<TextEdit> = Vec::new();
    for (entry, change) in read::<Manifest>(text)?.plugins.iter().zip(changes) {
        let spans = |list: &Option<Vec<Spanned<String>>>| -> Option<Vec<_>> {
            let list = list.iter().flatten();
            list.map(|entry| span(entry.referenced)).collect()
        };
        let allow = spans(&entry.allow)?;
        if let Some(replaced) = &change.allow {
            edits.extend(change_list(text, "allow", &allow, replaced)?);
        }
        if let Some(replaced) = &change.read {
            edits.extend(change_list(text, "read", &spans(&entry.read)?, replaced)?);
        }
        if let Some(paths) = &change.new_read {
            edits.push(insert_read(text, &allow, paths)?);
        }
    }
    let mut expected = read::<Value>(text)?;
    let plugins = expected.get_mut("plugins").and_then(Value::as_array_mut);
    for (plugin, change) in plugins.into_iter().flatten().zip(changes) {
        for (key, list) in [
            ("allow", change.allow.as_ref().map(|it| it.concat())),
            ("read", change.read.as_ref().map(|it| it.concat())),
            ("read", change.new_read.clone()),
        ] {
            if let (Some(list), Some(fields)) = (list, plugin.as_object_mut()) {
                fields.insert(key.to_owned(), json!(list));
            }
        }
    }
    edited(text, edits, &expected)
}

/// How a list is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// `- /spec` on a line of its own.
    Block,
    /// `[/spec]`
    Flow,
}

/// The edits that put other entries in the place of those at these positions.
fn change_list(
    text: &str,
    key: &str,
    entries: &[Range<usize>],
    replaced: &[Vec<String>],
) -> Option<Vec<TextEdit>> {
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
        return None;
    };
    if entries.len() != replaced.len() {
        return None;
    }
    let own = |range: &Range<usize>| text.get(range.clone()).unwrap_or_default();
    match style(text, first) {
        Style::Flow => Some(vec![(first.start..last.end, flow(text, entries, replaced))]),
        Style::Block => {
            let mut edits = Vec::new();
            if replaced.iter().all(Vec::is_empty) {
                let end = key_line(text, key, first)?.end;
                edits.push((end..end, " []".to_owned()));
            }
            for (entry, new) in entries.iter().zip(replaced) {
                let line = line(text, entry)?;
                let dash = text.get(line.start..entry.start).unwrap_or_default();
                match new.split_first() {
                    None => edits.push((line, String::new())),
                    Some((path, more)) => {
                        if scalar(path, Style::Block) != own(entry) && !is_same(own(entry), path) {
                            edits.push((entry.clone(), scalar(path, Style::Block)));
                        }
                        let more = more
                            .iter()
                            .map(|path| format!("{dash}{}\n", scalar(path, Style::Block)));
                        let more: String = more.collect();
                        if !more.is_empty() {
                            edits.push(after_line(text, line.end, more));
                        }
                    }
                }
            }
            Some(edits)
        }
    }
}

/// Adds a list of further paths that may be read after the list `allow` with these entries.
fn insert_read(text: &str, allow: &[Range<usize>], paths: &[String]) -> Option<TextEdit> {
    let (Some(first), Some(last)) = (allow.first(), allow.last()) else {
        return None;
    };
    let (end, line_of_key) = match style(text, first) {
        Style::Block => (line(text, last)?.end, key_line(text, "allow", first)?),
        Style::Flow => {
            let rest = text.get(last.end..).unwrap_or_default();
            let close = last.end + rest.find(']')? + 1;
            let after = text.get(close..).unwrap_or_default();
            let rest_of_line = after.split('\n').next().unwrap_or_default();
            if !is_blank(rest_of_line) {
                let paths: Vec<String> =
                    paths.iter().map(|path| scalar(path, Style::Flow)).collect();
                return Some((close..close, format!(", read: [{}]", paths.join(", "))));
            }
            let end = (close + rest_of_line.len() + 1).min(text.len());
            let before = text.get(..first.start);
            let start = before.and_then(|it| it.rfind('['))?;
            (end, key_line(text, "allow", &(start..start))?)
        }
    };
    let start = line_start(text, line_of_key.start);
    let before = text.get(start..line_of_key.start).unwrap_or_default();
    let indent = before.replace('-', " ");
    let paths = paths.iter();
    let paths = paths.map(|path| format!("{indent}- {}\n", scalar(path, Style::Block)));
    let list = format!("{indent}read:\n{}", paths.collect::<String>());
    Some(after_line(text, end, list))
}

/// Inserts lines at the end of a line, which may be the last one and have no end.
fn after_line(text: &str, end: usize, lines: String) -> TextEdit {
    let is_ended = text.get(..end).is_some_and(|before| before.ends_with('\n'));
    let lines = match is_ended {
        true => lines,
        false => format!("\n{}", lines.trim_end_matches('\n')),
    };
    (end..end, lines)
}

/// The entries of a list in brackets. Between two that are kept stands what stood behind the first one.
fn flow(text: &str, entries: &[Range<usize>], replaced: &[Vec<String>]) -> String {
    let mut out = String::new();
    let mut between: Option<&str> = None;
    for (number, (entry, new)) in entries.iter().zip(replaced).enumerate() {
        let Some((_, more)) = new.split_first() else {
            continue;
        };
        out.push_str(between.unwrap_or_default());
        let own = text.get(entry.clone()).unwrap_or_default();
        let texts = new
            .iter()
            .map(|path| match more.is_empty() && is_same(own, path) {
                true => own.to_owned(),
                false => scalar(path, Style::Flow),
            });
        out.push_str(&texts.collect::<Vec<_>>().join(", "));
        let next = entries.get(number + 1).map_or(entry.end, |next| next.start);
        between = text.get(entry.end..next);
    }
    out
}

fn style(text: &str, first: &Range<usize>) -> Style {
    let before = text.get(..first.start).unwrap_or_default();
    let mut before = before.trim_end();
    // Comments may stand between the bracket and the first entry.
    while let Some((above, line)) = before.rsplit_once('\n') {
        match line.trim_start().starts_with('#') {
            true => before = above.trim_end(),
            false => break,
        }
    }
    let before = before.trim_end_matches(['"', '\'']).trim_end();
    match before.ends_with('-') {
        true => Style::Block,
        false => Style::Flow,
    }
}

/// The whole line of an entry that is alone on it, with its end.
fn line(text: &str, entry: &Range<usize>) -> Option<Range<usize>> {
    let start = line_start(text, entry.start);
    let before = text.get(start..entry.start).unwrap_or_default();
    let after = text.get(entry.end..).unwrap_or_default();
    let rest = after.split('\n').next().unwrap_or_default();
    let is_alone = before.trim() == "-" && is_blank(rest);
    let is_one_line = text
        .get(entry.clone())
        .is_some_and(|own| !own.contains('\n'));
    match is_alone && is_one_line {
        true => Some(start..(entry.end + rest.len() + 1).min(text.len())),
        false => None,
    }
}

fn line_start(text: &str, at: usize) -> usize {
    let before = text.get(..at).unwrap_or_default();
    before.rfind('\n').map_or(0, |end| end + 1)
}

/// Where the key of a list stands, with its colon.
fn key_line(text: &str, key: &str, first: &Range<usize>) -> Option<Range<usize>> {
    let before = text.get(..first.start).unwrap_or_default();
    let key = format!("{key}:");
    let start = before.rfind(&key)?;
    let end = start + key.len();
    // Only this entry, comments and blanks may stand between.
    let between = before.get(end..).unwrap_or_default();
    let mut lines = between.lines();
    match lines.all(|line| is_blank(line) || line.trim() == "-") {
        true => Some(start..end),
        false => None,
    }
}

/// Whether the rest of a line has nothing but a comment.
fn is_blank(rest: &str) -> bool {
    let rest = rest.trim();
    rest.is_empty() || rest.starts_with('#')
}

/// Whether a scalar of the text is this path.
fn is_same(own: &str, path: &str) -> bool {
    [own, own.trim_matches('"'), own.trim_matches('\'')].contains(&path)
}

/// A path as YAML.
fn scalar(path: &str, style: Style) -> String {
    let is_plain = |letter: char| {
        letter.is_ascii_alphanumeric()
            || "/-_.~=*".contains(letter)
            || style == Style::Block && "[]".contains(letter)
    };
    match path.starts_with('/') && path.chars().all(is_plain) {
        true => path.to_owned(),
        false => format!("'{}'", path.replace('\'', "''")),
    }
}

#[cfg(test)]
mod tests;

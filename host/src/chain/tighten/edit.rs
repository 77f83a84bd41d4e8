//! Changes `allow` and `read` in the text of chain.yaml, and keeps everything else: comments, order, style.

use std::ops::Range;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use serde_saphyr::{Location, Spanned};

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

// One list of paths in the text of a manifest.

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
) -> Result<Vec<TextEdit>, NotInPlace> {
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
        return Err(NotInPlace);
    };
    if entries.len() != replaced.len() {
        return Err(NotInPlace);
    }
    let own = |range: &Range<usize>| text.get(range.clone()).unwrap_or_default();
    match style(text, first) {
        Style::Flow => Ok(vec![(first.start..last.end, flow(text, entries, replaced))]),
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
            Ok(edits)
        }
    }
}

/// Where something can be written after a list, as a further key of the same plugin.
#[derive(Clone, Debug)]
enum End {
    /// On a line of its own, with this indentation.
    Line(usize, String),
    /// In the same line.
    Here(usize),
}

fn end_of(text: &str, key: &str, entries: &[Range<usize>]) -> Result<End, NotInPlace> {
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
        return Err(NotInPlace);
    };
    let (end, line_of_key) = match style(text, first) {
        Style::Block => (line(text, last)?.end, key_line(text, key, first)?),
        Style::Flow => {
            let rest = text.get(last.end..).unwrap_or_default();
            let close = last.end + rest.find(']').ok_or(NotInPlace)? + 1;
            let after = text.get(close..).unwrap_or_default();
            let rest_of_line = after.split('\n').next().unwrap_or_default();
            if !is_blank(rest_of_line) {
                return Ok(End::Here(close));
            }
            let end = (close + rest_of_line.len() + 1).min(text.len());
            let start = text
                .get(..first.start)
                .and_then(|it| it.rfind('['))
                .ok_or(NotInPlace)?;
            (end, key_line(text, key, &(start..start))?)
        }
    };
    let start = line_start(text, line_of_key.start);
    let before = text.get(start..line_of_key.start).unwrap_or_default();
    Ok(End::Line(end, before.replace('-', " ")))
}

/// A list of further paths that may be read.
fn insert_read(text: &str, end: End, paths: &[String]) -> TextEdit {
    match end {
        End::Here(at) => {
            let paths: Vec<String> = paths.iter().map(|path| scalar(path, Style::Flow)).collect();
            (at..at, format!(", read: [{}]", paths.join(", ")))
        }
        End::Line(at, indent) => {
            let paths = paths
                .iter()
                .map(|path| format!("{indent}- {}\n", scalar(path, Style::Block)));
            after_line(
                text,
                at,
                format!("{indent}read:\n{}", paths.collect::<String>()),
            )
        }
    }
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
fn line(text: &str, entry: &Range<usize>) -> Result<Range<usize>, NotInPlace> {
    let start = line_start(text, entry.start);
    let before = text.get(start..entry.start).unwrap_or_default();
    let after = text.get(entry.end..).unwrap_or_default();
    let rest = after.split('\n').next().unwrap_or_default();
    let is_alone = before.trim() == "-" && is_blank(rest);
    let is_one_line = text
        .get(entry.clone())
        .is_some_and(|own| !own.contains('\n'));
    match is_alone && is_one_line {
        true => Ok(start..(entry.end + rest.len() + 1).min(text.len())),
        false => Err(NotInPlace),
    }
}

fn line_start(text: &str, at: usize) -> usize {
    let before = text.get(..at).unwrap_or_default();
    before.rfind('\n').map_or(0, |end| end + 1)
}

/// Where the key of a list stands, with its colon.
fn key_line(text: &str, key: &str, first: &Range<usize>) -> Result<Range<usize>, NotInPlace> {
    let before = text.get(..first.start).unwrap_or_default();
    let key = format!("{key}:");
    let start = before.rfind(&key).ok_or(NotInPlace)?;
    let end = start + key.len();
    // Only this entry, comments and blanks may stand between.
    let between = before.get(end..).unwrap_or_default();
    let mut lines = between.lines();
    match lines.all(|line| is_blank(line) || line.trim() == "-") {
        true => Ok(start..end),
        false => Err(NotInPlace),
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

//! The text of a document as it was written, so that what is only passed on keeps its comments, its order and its scalars.

use std::ops::Range;

use serde::de::IgnoredAny;

use super::document::Document;
use super::parse;
use super::source::Source;

/// kubectl's parser ends a line at these, and with it a comment, and ours does not: kubectl would read another object than the one
/// that was checked.
const LINE_BREAKS: [char; 3] = ['\u{85}', '\u{2028}', '\u{2029}'];

impl Document {
    /// The document as it was written; none if it has to be reformatted: JSON, the items of a List, text that depends on what
    /// stands before its document, and text that kubectl may read as something else.
    pub(crate) fn as_written(&self) -> Option<String> {
        let Written { comments, slice } = self.written.as_ref()?;
        let own = self.source.text.get(slice.bytes.clone())?;
        let may_differ = own.contains(LINE_BREAKS) || comments.contains(LINE_BREAKS);
        if may_differ || serde_json::from_str::<IgnoredAny>(own).is_ok() {
            return None;
        }
        let mut text = format!("{comments}{own}");
        if !text.ends_with('\n') {
            text.push('\n');
        }
        let source = Source {
            name: self.source.name.clone(),
            text: text.as_str().into(),
        };
        let values = parse::documents(&source).ok()?;
        let values: Vec<_> = values.into_iter().map(|document| document.value).collect();
        (values == [self.value.clone()]).then_some(text)
    }
}

// Where the text of each document is.

/// Where the text of a document is.
#[derive(Clone, Debug)]
pub(super) struct Written {
    /// Comments above the document's separator.
    pub(super) comments: String,
    pub(super) slice: Slice,
}

/// Finds the text of each document of a file. Ask in the order of the lines.
pub(super) struct Finder<'a> {
    text: &'a str,
    slices: std::iter::Peekable<std::vec::IntoIter<Slice>>,
}

impl<'a> Finder<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            slices: slices(text).into_iter().peekable(),
        }
    }

    /// The text of the document that has content on a line.
    pub(super) fn find(&mut self, line: u64) -> Option<Written> {
        let mut comments = String::new();
        while let Some(slice) = self.slices.next() {
            let next = self.slices.peek().map(|next| next.first_line);
            if next.is_none_or(|next| line < next) {
                return Some(Written { comments, slice });
            }
            let text = self.text.get(slice.bytes).unwrap_or_default();
            if has_content(text) {
                comments.clear();
            } else {
                let lines = text.lines().filter(|line| !line.trim().is_empty());
                comments.extend(lines.flat_map(|line| [line, "\n"]));
            }
        }
        None
    }
}

// Divides a text into its YAML documents: a line that starts with `---` begins one, also inside anything else.

/// The text of one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    /// The line of its separator, or 1.
    pub(super) first_line: u64,
    /// Its bytes, without the separator.
    pub(super) bytes: Range<usize>,
}

/// The documents of a text, also those without content. There is at least one.
pub(super) fn slices(text: &str) -> Vec<Slice> {
    let mut slices = Vec::new();
    // A byte order mark belongs to the file.
    let start = if text.starts_with('\u{feff}') { 3 } else { 0 };
    let mut current = Slice {
        first_line: 1,
        bytes: start..text.len(),
    };
    let mut offset = 0;
    for (line, number) in text.split_inclusive('\n').zip(1..) {
        let after = match separator(line) {
            Some(length) => offset + length,
            None => {
                offset += line.len();
                continue;
            }
        };
        let next = Slice {
            first_line: number,
            bytes: after..text.len(),
        };
        let mut before = std::mem::replace(&mut current, next);
        before.bytes.end = offset.max(before.bytes.start);
        slices.push(before);
        offset += line.len();
    }
    slices.push(current);
    slices
}

/// How long the separator is that a line starts with: the whole line, unless the document begins on it.
fn separator(line: &str) -> Option<usize> {
    let text = line.trim_end_matches(['\n', '\r']);
    // `...` ends a document, and what follows is another.
    let marker = text
        .get(..3)
        .filter(|start| matches!(*start, "---" | "..."))?;
    let rest = text.strip_prefix(marker)?;
    if rest.trim().is_empty() {
        Some(line.len())
    } else {
        rest.starts_with([' ', '\t']).then_some(marker.len() + 1)
    }
}

/// Whether a line begins a document.
pub(super) fn is_separator(line: &str) -> bool {
    line.starts_with("---") && separator(line).is_some()
}

/// Whether there is anything but empty lines and comments.
pub(super) fn has_content(text: &str) -> bool {
    text.lines()
        .map(str::trim)
        .any(|line| !line.is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests;

//! Divides a text into its YAML documents: a line that starts with `---` begins one, also inside anything else.

use std::ops::Range;

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
            slices: of(text).into_iter().peekable(),
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

/// The text of one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    /// The line of its separator, or 1.
    pub(super) first_line: u64,
    /// Its bytes, without the separator.
    pub(super) bytes: Range<usize>,
}

/// The documents of a text, also those without content. There is at least one.
pub(super) fn of(text: &str) -> Vec<Slice> {
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

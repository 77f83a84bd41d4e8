//! Where the text of each document is.

use super::slices::{self, Slice};

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
            slices: slices::of(text).into_iter().peekable(),
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
            if slices::has_content(text) {
                comments.clear();
            } else {
                let lines = text.lines().filter(|line| !line.trim().is_empty());
                comments.extend(lines.flat_map(|line| [line, "\n"]));
            }
        }
        None
    }
}

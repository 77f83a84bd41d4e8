//! Finds the document that a line belongs to.

use std::iter::Enumerate;
use std::str::Lines;

use super::slices;

/// Counts the documents of a text by their separators, from the first line to the last.
pub(super) struct Numbering<'a> {
    lines: Enumerate<Lines<'a>>,
    /// How many lines were read.
    read: u64,
    number: usize,
    /// Whether the current document has content. A separator before that does not start a new document.
    content: bool,
}

impl<'a> Numbering<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            lines: text.lines().enumerate(),
            read: 0,
            number: 1,
            content: false,
        }
    }

    /// The number of the document that a line is in. Call it with increasing lines: each line is read only once.
    pub(super) fn document(&mut self, line: u64) -> usize {
        while self.read < line
            && let Some((index, here)) = self.lines.next()
        {
            self.read = index as u64 + 1;
            self.pass(here);
        }
        self.number
    }

    fn pass(&mut self, line: &str) {
        if slices::is_separator(line) {
            self.number += usize::from(self.content);
            self.content = true;
        } else if !self.content {
            let line = line.trim_start_matches('\u{feff}').trim();
            self.content = !(line.is_empty() || line.starts_with(['#', '%']));
        }
    }
}

#[cfg(test)]
mod tests;

//! Which document of a file a line is in.

use std::iter::Enumerate;
use std::str::Lines;

/// Counts the documents of a text by their separators, as a person would, from its first line to its last.
pub(super) struct Numbering<'a> {
    lines: Enumerate<Lines<'a>>,
    /// How many lines were read.
    read: u64,
    number: usize,
    /// Whether the document has begun: a separator before that does not end one.
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

    /// The number of the document that a line is in. Lines are asked for in their order, so that each is read once.
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
        let separator = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']));
        if separator {
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

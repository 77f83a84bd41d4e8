//! Splits an answer that is a list into its objects while it arrives, so that it is never in memory as a whole.

#[cfg(test)]
mod tests;

use std::mem;

use serde_json::Value;

/// How long an object may be. Kubernetes allows longer ones, of which the parsed form can take a hundred times as much memory; those
/// are not read.
const LONGEST: usize = 512 * 1024;
/// How long the answer may be without its objects.
const FRAME: usize = 64 * 1024;

/// An object of a list.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Listed {
    /// As it was sent.
    Text(Vec<u8>),
    TooLong,
}

/// Splits the JSON of a list.
#[derive(Default)]
pub(super) struct Splitter {
    /// The answer without its objects.
    frame: Vec<u8>,
    object: Vec<u8>,
    is_too_long: bool,
    /// How many objects and lists around this byte are open.
    depth: usize,
    is_in_items: bool,
    is_in_text: bool,
    is_escaped: bool,
}

impl Listed {
    /// None if it is too long or nested too deep. Who may write objects can make such ones, so that is no error.
    pub(crate) fn read(self) -> Option<Value> {
        match self {
            Self::Text(text) => serde_json::from_slice(&text).ok(),
            Self::TooLong => None,
        }
    }
}

impl Splitter {
    /// Takes bytes up to the end of the next object; returns how many these are, and the object if it is whole.
    pub(super) fn take(&mut self, bytes: &[u8]) -> (usize, Option<Listed>) {
        for (index, byte) in bytes.iter().enumerate() {
            let was_in_object = self.is_in_object();
            self.step(*byte);
            let is_in_object = self.is_in_object();
            if was_in_object || is_in_object {
                self.put_object(*byte);
            } else {
                self.put_frame(*byte);
            }
            if was_in_object && !is_in_object {
                let text = mem::take(&mut self.object);
                let listed = match mem::take(&mut self.is_too_long) {
                    true => Listed::TooLong,
                    false => Listed::Text(text),
                };
                return (index.saturating_add(1), Some(listed));
            }
        }
        (bytes.len(), None)
    }

    /// The answer with an empty list.
    pub(super) fn frame(&self) -> &[u8] {
        &self.frame
    }

    fn is_in_object(&self) -> bool {
        self.is_in_items && self.depth > 2
    }

    fn step(&mut self, byte: u8) {
        if self.is_in_text {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.is_in_text = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => self.is_in_text = true,
            b'{' | b'[' => {
                if self.depth == 1 {
                    self.is_in_items = self.frame.ends_with(b"\"items\":");
                }
                self.depth = self.depth.saturating_add(1);
            }
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }

    fn put_object(&mut self, byte: u8) {
        if self.object.len() < LONGEST && !self.is_too_long {
            self.object.push(byte);
        } else {
            self.is_too_long = true;
            self.object = Vec::new();
        }
    }

    fn put_frame(&mut self, byte: u8) {
        let is_between = self.is_in_items && self.depth == 2 && byte == b',';
        let is_space = !self.is_in_text && byte.is_ascii_whitespace();
        if !is_between && !is_space && self.frame.len() < FRAME {
            self.frame.push(byte);
        }
    }
}

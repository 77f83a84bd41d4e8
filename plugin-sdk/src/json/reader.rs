//! The reader itself: what does not depend on the type that is read, so that it exists once.

mod deserializer;
mod plain;

use std::mem;

pub(super) use self::plain::plain_end;
use super::Error;
use crate::path;

/// By this name of a newtype the reader knows that a value of any shape is asked for, numbers as they are written.
pub(super) use podloom_syntax::quantity::NUMBER_AS_WRITTEN as ANY;

/// Deeper values would overflow a plugin's small stack; a pod is a dozen levels deep.
const MAX_DEPTH: usize = 64;

pub(super) struct Reader<'t> {
    text: &'t str,
    position: usize,
    depth: usize,
    /// Whether nothing of the list or object around `position` was read yet.
    first: bool,
    /// Whether the list or object around `position` was read to its end.
    ended: bool,
    /// Whether what is read as a list or an object is `null`.
    null: bool,
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self {
            text,
            position: 0,
            depth: 0,
            first: false,
            ended: false,
            null: false,
        }
    }

    /// Returns the path of the place that was reached, empty for the whole text.
    #[cold]
    pub(super) fn path(&self) -> String {
        let mut outer: Vec<Step<'_>> = Vec::new();
        let mut rest = Reader::new(self.text.get(..self.position).unwrap_or_default());
        let mut text = None;
        while let Some(byte) = rest.peek() {
            if byte == b'"' {
                // A text that is cut off is where the error is.
                text = rest.string().ok();
                continue;
            }
            rest.position += 1;
            match (byte, outer.last_mut()) {
                (b'{', _) => outer.push(Step::Field(None)),
                (b'[', _) => outer.push(Step::Element(0)),
                (b'}' | b']', _) => drop(outer.pop()),
                (b':', Some(Step::Field(field))) => *field = text.take(),
                (b',', Some(Step::Field(field))) => *field = None,
                (b',', Some(Step::Element(index))) => *index += 1,
                _ => {}
            }
        }
        if self.ended {
            outer.pop();
        }
        let mut path = String::new();
        for step in outer {
            let name = match step {
                Step::Field(field) => field.unwrap_or_default().to_owned(),
                Step::Element(index) => index.to_string(),
            };
            if !path.is_empty() && !name.is_empty() {
                path.push('/');
            }
            path::push_escaped(&mut path, &name);
        }
        path
    }

    /// Makes sure that nothing follows.
    pub(super) fn end(&mut self) -> Result<(), Error> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(Error::new("no JSON: something follows the value")),
        }
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    /// Returns the next byte that is no white space, without taking it.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        // The host writes none.
        match self.byte() {
            Some(byte) if byte <= b' ' => self.peek_past_space(),
            byte => byte,
        }
    }

    #[cold]
    fn peek_past_space(&mut self) -> Option<u8> {
        while matches!(self.byte(), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.position += 1;
        }
        self.byte()
    }

    /// Takes the next byte if it is this one.
    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.position += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<(), Error> {
        if self.take(byte) {
            Ok(())
        } else {
            Err(malformed())
        }
    }

    fn word(&mut self, word: &str) -> Result<(), Error> {
        let rest = self.text.get(self.position..).unwrap_or_default();
        if !rest.starts_with(word) {
            return Err(malformed());
        }
        self.position += word.len();
        Ok(())
    }

    /// Enters a list or an object; `null` is one without anything in it.
    fn enter(&mut self, open: u8) -> Result<(), Error> {
        match self.peek() {
            Some(byte) if byte == open => self.open(),
            Some(b'n') => {
                self.null = true;
                self.word("null")
            }
            _ if open == b'[' => Err(self.mismatch("a list")),
            _ => Err(self.mismatch("an object")),
        }
    }

    /// Enters the list or the object that was peeked at.
    fn open(&mut self) -> Result<(), Error> {
        self.position += 1;
        self.depth += 1;
        self.first = true;
        if self.depth > MAX_DEPTH {
            Err(Error::new("too deep"))
        } else {
            Ok(())
        }
    }

    fn leave(&mut self, close: u8) -> Result<(), Error> {
        self.first = false;
        if mem::take(&mut self.null) {
            return Ok(());
        }
        self.depth -= 1;
        self.ended = false;
        self.expect(close)
    }

    /// Goes to the next element or key.
    #[inline]
    fn advance(&mut self, close: u8) -> Next {
        if self.null {
            return Next::End;
        }
        match self.peek() {
            Some(b',') if !self.first => {
                self.position += 1;
                // `[1,]` is no JSON.
                if self.peek() == Some(close) {
                    Next::Malformed
                } else {
                    Next::Item
                }
            }
            Some(byte) if byte == close => {
                self.ended = true;
                Next::End
            }
            _ if mem::take(&mut self.first) => Next::Item,
            _ => Next::Malformed,
        }
    }

    /// Takes the name of the next field, up to its colon; `None` at the end.
    ///
    /// One function, since calls are what costs most in a sandbox, and there are as many as a pod has fields.
    fn field(&mut self) -> Result<Option<&'t str>, Error> {
        match self.advance(b'}') {
            Next::End => return Ok(None),
            Next::Item if self.byte() == Some(b'"') => {}
            Next::Item | Next::Malformed => return Err(malformed()),
        }
        let name = self.string()?;
        match self.peek() {
            Some(b':') => Ok(Some(name)),
            _ => Err(malformed()),
        }
    }

    /// Takes a string; its first quote is what was peeked at.
    #[inline]
    fn string(&mut self) -> Result<&'t str, Error> {
        self.position += 1;
        let plain = self.plain();
        if self.byte() == Some(b'"') {
            self.position += 1;
            return Ok(plain);
        }
        // Leaked, so that every string lives as long as the text: in a plugin nothing is freed anyway.
        self.escaped_string(plain).map(|text| &*text.leak())
    }

    /// Takes what is as it stands, up to the string's end or an escape.
    #[inline]
    fn plain(&mut self) -> &'t str {
        let start = self.position;
        self.position = plain_end(self.text.as_bytes(), start);
        // Both ends are ASCII characters or the text's end.
        self.text.get(start..self.position).unwrap_or_default()
    }

    #[cold]
    fn escaped_string(&mut self, plain: &str) -> Result<String, Error> {
        let mut text = String::from(plain);
        loop {
            let byte = self.byte().filter(|byte| matches!(byte, b'"' | b'\\'));
            let byte = byte.ok_or_else(malformed)?;
            self.position += 1;
            if byte == b'"' {
                return Ok(text);
            }
            text.push(self.escaped()?);
            text.push_str(self.plain());
        }
    }

    fn escaped(&mut self) -> Result<char, Error> {
        let byte = self.byte().ok_or_else(malformed)?;
        self.position += 1;
        Ok(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let mut code = self.hex4()?;
                if (0xD800..0xDC00).contains(&code) {
                    self.word("\\u")?;
                    let low = self.hex4()?.wrapping_sub(0xDC00);
                    if low >= 0x400 {
                        return Err(malformed());
                    }
                    code = 0x1_0000 + ((code - 0xD800) << 10) + low;
                }
                char::from_u32(code).ok_or_else(malformed)?
            }
            _ => return Err(malformed()),
        })
    }

    fn hex4(&mut self) -> Result<u32, Error> {
        let mut code = 0;
        for _ in 0..4 {
            let byte = self.byte().ok_or_else(malformed)?;
            let digit = char::from(byte).to_digit(16).ok_or_else(malformed)?;
            code = code << 4 | digit;
            self.position += 1;
        }
        Ok(code)
    }

    /// Takes the text of a number. The host has made it, so its grammar is not checked again: what is no number does not parse.
    fn number(&mut self) -> &'t str {
        let start = self.position;
        while self.byte().is_some_and(|byte| {
            byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E')
        }) {
            self.position += 1;
        }
        self.text.get(start..self.position).unwrap_or_default()
    }

    /// Passes over a value of any kind. Where nothing is read, the host's grammar is not checked.
    fn skip(&mut self) -> Result<(), Error> {
        let bytes = self.text.as_bytes();
        self.peek();
        let start = self.position;
        let mut depth = 0_usize;
        while let Some(&byte) = bytes.get(self.position) {
            match byte {
                b'"' => self.skip_string()?,
                b'{' | b'[' => {
                    self.position += 1;
                    depth += 1;
                    continue;
                }
                // The end of what is around this value.
                b'}' | b']' | b',' if depth == 0 => break,
                b'}' | b']' => {
                    self.position += 1;
                    depth -= 1;
                }
                _ => {
                    self.position += 1;
                    continue;
                }
            }
            if depth == 0 {
                return Ok(());
            }
        }
        if depth == 0 && self.position > start {
            Ok(())
        } else {
            Err(malformed())
        }
    }

    fn skip_string(&mut self) -> Result<(), Error> {
        let bytes = self.text.as_bytes();
        self.position += 1;
        loop {
            self.position = plain_end(bytes, self.position) + 1;
            match bytes.get(self.position - 1) {
                Some(b'"') => return Ok(()),
                // Whatever is escaped begins with one byte that is no end.
                Some(b'\\') => self.position += 1,
                _ => return Err(malformed()),
            }
        }
    }

    /// What is here is of another kind than asked for. Its kind is enough to know, so that no number has to be printed.
    #[cold]
    fn mismatch(&mut self, expected: &str) -> Error {
        let found = match self.peek() {
            Some(b'"') => "a string",
            Some(b'{') => "an object",
            Some(b'[') => "a list",
            Some(b't' | b'f') => "a boolean",
            Some(b'n') => "null",
            Some(b'-' | b'0'..=b'9') => "a number",
            _ => return malformed(),
        };
        Error::new(format!("expected {expected}, found {found}"))
    }
}

/// What comes next in a list or an object.
enum Next {
    Item,
    End,
    Malformed,
}

/// One step of the path to a place: a field once its name is known, or an element.
enum Step<'t> {
    Field(Option<&'t str>),
    Element(usize),
}

#[cold]
fn malformed() -> Error {
    Error::new("no JSON")
}

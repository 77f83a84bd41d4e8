//! The reader itself: first what does not depend on the type that is read, so that it exists once.

use std::mem;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    self, DeserializeSeed, EnumAccess, MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor,
};

use super::Error;
use crate::path;
// By this name of a newtype the reader knows that a value of any shape is asked for, numbers as they are written.
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

    /// Goes to the next element or key. Returns whether there is one.
    #[inline]
    fn advance(&mut self, close: u8) -> Result<bool, Error> {
        if self.null {
            return Ok(false);
        }
        match self.peek() {
            Some(b',') if !self.first => {
                self.position += 1;
                // `[1,]` is no JSON.
                if self.peek() == Some(close) {
                    return Err(malformed());
                }
                Ok(true)
            }
            Some(byte) if byte == close => {
                self.ended = true;
                Ok(false)
            }
            _ if mem::take(&mut self.first) => Ok(true),
            _ => Err(malformed()),
        }
    }

    /// Takes the name of the next field, up to its colon; `None` at the end.
    ///
    /// One function, since calls are what costs most in a sandbox, and there are as many as a pod has fields.
    fn field(&mut self) -> Result<Option<&'t str>, Error> {
        if !self.advance(b'}')? {
            return Ok(None);
        }
        if self.byte() != Some(b'"') {
            return Err(malformed());
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

/// One step of the path to a place: a field once its name is known, or an element.
enum Step<'t> {
    Field(Option<&'t str>),
    Element(usize),
}

#[cold]
fn malformed() -> Error {
    Error::new("no JSON")
}

/// Forwards methods of `Deserializer` that read the same thing.
macro_rules! same {
    ($as:ident: $($method:ident($($argument:ty),*)),+) => {$(
        fn $method<V: Visitor<'t>>(self, $(_: $argument,)* visitor: V) -> Result<V::Value, Error> {
            self.$as(visitor)
        }
    )+};
}

/// The reader as serde's data format: the thin layer that exists once for each type.
impl<'t> de::Deserializer<'t> for &mut Reader<'t> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.peek() {
            Some(b'"') => self.deserialize_str(visitor),
            Some(b'{') => self.deserialize_map(visitor),
            Some(b'[') => self.deserialize_seq(visitor),
            Some(b't' | b'f') => self.deserialize_bool(visitor),
            Some(b'n') => self.deserialize_unit(visitor),
            _ => {
                let start = self.position;
                let is_float = self.number().contains(['.', 'e', 'E']);
                self.position = start;
                if is_float {
                    self.deserialize_f64(visitor)
                } else {
                    self.deserialize_i64(visitor)
                }
            }
        }
    }

    fn deserialize_bool<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error> {
        let value = self.boolean()?;
        visitor.visit_bool(value)
    }

    fn deserialize_i64<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.integer(&visitor)? {
            Integer::Signed(number) => visitor.visit_i64(number),
            Integer::Large(number) => visitor.visit_u64(number),
        }
    }

    fn deserialize_f64<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error> {
        let number = self.digits()?;
        match number.parse() {
            Ok(number) => visitor.visit_f64(number),
            Err(_) => Err(malformed()),
        }
    }

    fn deserialize_str<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error> {
        let text = self.string_or_null()?;
        visitor.visit_borrowed_str(text)
    }

    fn deserialize_option<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.peek() == Some(b'n') {
            self.word("null")?;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_unit<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.peek() != Some(b'n') {
            return Err(self.mismatch("null"));
        }
        self.word("null")?;
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'t>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        if name != ANY {
            return visitor.visit_newtype_struct(self);
        }
        // Not `deserialize_any`, which brings the code that reads floating-point numbers.
        match self.peek() {
            Some(b'"') => self.deserialize_str(visitor),
            Some(b'{') => self.deserialize_map(visitor),
            Some(b'[') => self.deserialize_seq(visitor),
            Some(b't' | b'f') => self.deserialize_bool(visitor),
            Some(b'n') => self.deserialize_unit(visitor),
            Some(b'-' | b'0'..=b'9') => visitor.visit_borrowed_bytes(self.number().as_bytes()),
            _ => Err(malformed()),
        }
    }

    fn deserialize_seq<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error> {
        self.enter(b'[')?;
        let value = visitor.visit_seq(Items(self))?;
        self.leave(b']')?;
        Ok(value)
    }

    fn deserialize_map<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error> {
        self.enter(b'{')?;
        let value = visitor.visit_map(Items(self))?;
        self.leave(b'}')?;
        Ok(value)
    }

    fn deserialize_enum<V: Visitor<'t>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let has_content = match self.peek() {
            Some(b'"') => false,
            Some(b'{') => true,
            _ => return Err(self.mismatch("a string or an object")),
        };
        if has_content {
            self.open()?;
            self.first = false;
        }
        let value = visitor.visit_enum(Variant {
            reader: self,
            has_content,
        })?;
        if has_content {
            if self.peek() == Some(b',') {
                return Err(Error::new("more than one field, where one is expected"));
            }
            self.leave(b'}')?;
        }
        Ok(value)
    }

    fn deserialize_ignored_any<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error> {
        self.skip()?;
        visitor.visit_unit()
    }

    same!(deserialize_i64: deserialize_i8(), deserialize_i16(), deserialize_i32(), deserialize_u8(), deserialize_u16(),
        deserialize_u32(), deserialize_u64());
    same!(deserialize_f64: deserialize_f32());
    same!(deserialize_str: deserialize_string(), deserialize_char(), deserialize_identifier(), deserialize_bytes(), deserialize_byte_buf());
    same!(deserialize_unit: deserialize_unit_struct(&'static str));
    same!(deserialize_seq: deserialize_tuple(usize), deserialize_tuple_struct(&'static str, usize));
    same!(deserialize_map: deserialize_struct(&'static str, &'static [&'static str]));
}

/// An integer, of the size that holds it.
enum Integer {
    Signed(i64),
    /// Larger than any signed one.
    Large(u64),
}

impl<'t> Reader<'t> {
    fn boolean(&mut self) -> Result<bool, Error> {
        match self.peek() {
            Some(b't') => self.word("true").map(|()| true),
            Some(b'f') => self.word("false").map(|()| false),
            Some(b'n') => self.word("null").map(|()| false),
            _ => Err(self.mismatch("a boolean")),
        }
    }

    fn digits(&mut self) -> Result<&'t str, Error> {
        match self.peek() {
            Some(b'-' | b'0'..=b'9') => Ok(self.number()),
            Some(b'n') => self.word("null").map(|()| "0"),
            _ => Err(self.mismatch("a number")),
        }
    }

    fn integer(&mut self, expected: &dyn de::Expected) -> Result<Integer, Error> {
        let digits = self.digits()?;
        let signed = digits.parse().map(Integer::Signed);
        signed
            .or_else(|_| digits.parse().map(Integer::Large))
            .map_err(|_| de::Error::invalid_type(Unexpected::Unsigned(0), expected))
    }

    fn string_or_null(&mut self) -> Result<&'t str, Error> {
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'n') => self.word("null").map(|()| ""),
            _ => Err(self.mismatch("a string")),
        }
    }
}

/// The elements of a list, or the fields of an object.
struct Items<'r, 't>(&'r mut Reader<'t>);

impl<'t> SeqAccess<'t> for Items<'_, 't> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'t>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        if self.0.advance(b']')? {
            seed.deserialize(&mut *self.0).map(Some)
        } else {
            Ok(None)
        }
    }
}

impl<'t> MapAccess<'t> for Items<'_, 't> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'t>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        match self.0.field()? {
            Some(name) => seed
                .deserialize(BorrowedStrDeserializer::new(name))
                .map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'t>>(&mut self, seed: V) -> Result<V::Value, Error> {
        // Past the colon, which `field` has seen.
        self.0.position += 1;
        seed.deserialize(&mut *self.0)
    }
}

/// An enum: a text for a variant without content, else an object of one field.
struct Variant<'r, 't> {
    reader: &'r mut Reader<'t>,
    has_content: bool,
}

impl<'t> EnumAccess<'t> for Variant<'_, 't> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'t>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        let variant = seed.deserialize(&mut *self.reader)?;
        if self.has_content {
            self.reader.expect(b':')?;
        }
        Ok((variant, self))
    }
}

impl<'t> VariantAccess<'t> for Variant<'_, 't> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        if self.has_content {
            self.reader.skip()
        } else {
            Ok(())
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'t>>(self, seed: T) -> Result<T::Value, Error> {
        self.content()?;
        seed.deserialize(self.reader)
    }

    fn tuple_variant<V: Visitor<'t>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.content()?;
        de::Deserializer::deserialize_seq(self.reader, visitor)
    }

    fn struct_variant<V: Visitor<'t>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.content()?;
        de::Deserializer::deserialize_map(self.reader, visitor)
    }
}

impl Variant<'_, '_> {
    fn content(&self) -> Result<(), Error> {
        if self.has_content {
            Ok(())
        } else {
            Err(Error::new("expected an object of one field"))
        }
    }
}

/// Returns where the plain part of a string ends: at its quote, an escape, or a control character.
///
/// Eight bytes are looked at together, as in `serde_json`: most of what a plugin reads is names and values.
#[inline]
pub(super) fn plain_end(bytes: &[u8], start: usize) -> usize {
    const ONES: u64 = u64::MAX / 0xFF;
    const HIGH: u64 = ONES << 7;
    let equals = |word: u64, byte: u8| {
        let zero = word ^ (ONES * u64::from(byte));
        zero.wrapping_sub(ONES) & !zero
    };
    let mut position = start;
    while let Some(chunk) = bytes.get(position..).and_then(|rest| rest.first_chunk()) {
        let word = u64::from_le_bytes(*chunk);
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        // The lowest mark is right; those above it may come from borrowing.
        let marks = (equals(word, b'"') | equals(word, b'\\') | control) & HIGH;
        if marks != 0 {
            return position + marks.trailing_zeros() as usize / 8;
        }
        position += 8;
    }
    while bytes
        .get(position)
        .is_some_and(|byte| *byte >= 0x20 && !matches!(byte, b'"' | b'\\'))
    {
        position += 1;
    }
    position
}

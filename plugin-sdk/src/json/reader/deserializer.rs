//! The reader as serde's data format: the thin layer that exists once for each type.

use std::borrow::Cow;

use serde::de::{
    self, DeserializeSeed, EnumAccess, MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor,
};

use super::{Reader, malformed};
use crate::json::{Error, raw};

/// Forwards methods of `Deserializer` that read the same thing.
macro_rules! same {
    ($as:ident: $($method:ident($($argument:ty),*)),+) => {$(
        fn $method<V: Visitor<'t>>(self, $(_: $argument,)* visitor: V) -> Result<V::Value, Error> {
            self.$as(visitor)
        }
    )+};
}

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
                if self.number().contains(['.', 'e', 'E']) {
                    self.position = start;
                    return self.deserialize_f64(visitor);
                }
                self.position = start;
                self.deserialize_i64(visitor)
            }
        }
    }

    fn deserialize_bool<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.peek() {
            Some(b't') => self.word("true").and_then(|()| visitor.visit_bool(true)),
            Some(b'f') => self.word("false").and_then(|()| visitor.visit_bool(false)),
            _ => Err(self.mismatch(&visitor)),
        }
    }

    fn deserialize_i64<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error> {
        if !matches!(self.peek(), Some(b'-' | b'0'..=b'9')) {
            return Err(self.mismatch(&visitor));
        }
        let number = self.number();
        if let Ok(number) = number.parse() {
            return visitor.visit_i64(number);
        }
        match number.parse() {
            Ok(number) => visitor.visit_u64(number),
            Err(_) => Err(de::Error::invalid_type(Unexpected::Unsigned(0), &visitor)),
        }
    }

    fn deserialize_f64<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error> {
        if !matches!(self.peek(), Some(b'-' | b'0'..=b'9')) {
            return Err(self.mismatch(&visitor));
        }
        match self.number().parse() {
            Ok(number) => visitor.visit_f64(number),
            Err(_) => Err(malformed()),
        }
    }

    fn deserialize_str<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.peek() != Some(b'"') {
            return Err(self.mismatch(&visitor));
        }
        match self.string()? {
            Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
            Cow::Owned(text) => visitor.visit_string(text),
        }
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
            return Err(self.mismatch(&visitor));
        }
        self.word("null")?;
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'t>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        if name != raw::NAME {
            return visitor.visit_newtype_struct(self);
        }
        self.peek();
        let start = self.position;
        self.skip()?;
        visitor.visit_str(self.text.get(start..self.position).unwrap_or_default())
    }

    fn deserialize_seq<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.peek() != Some(b'[') {
            return Err(self.mismatch(&visitor));
        }
        self.enter()?;
        let value = visitor.visit_seq(Items {
            reader: self,
            first: true,
        })?;
        self.leave(b']')?;
        Ok(value)
    }

    fn deserialize_map<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.peek() != Some(b'{') {
            return Err(self.mismatch(&visitor));
        }
        self.enter()?;
        let value = visitor.visit_map(Items {
            reader: self,
            first: true,
        })?;
        self.leave(b'}')?;
        Ok(value)
    }

    fn deserialize_enum<V: Visitor<'t>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.peek() {
            Some(b'"') => visitor.visit_enum(Variant {
                reader: self,
                has_content: false,
            }),
            Some(b'{') => {
                self.enter()?;
                let value = visitor.visit_enum(Variant {
                    reader: self,
                    has_content: true,
                })?;
                self.leave(b'}')?;
                Ok(value)
            }
            _ => Err(self.mismatch(&visitor)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error> {
        self.skip()?;
        visitor.visit_unit()
    }

    same!(deserialize_i64: deserialize_i8(), deserialize_i16(), deserialize_i32(), deserialize_u8(), deserialize_u16(),
        deserialize_u32(), deserialize_u64());
    same!(deserialize_f64: deserialize_f32());
    same!(deserialize_str: deserialize_string(), deserialize_char(), deserialize_identifier(), deserialize_bytes(),
        deserialize_byte_buf());
    same!(deserialize_unit: deserialize_unit_struct(&'static str));
    same!(deserialize_seq: deserialize_tuple(usize), deserialize_tuple_struct(&'static str, usize));
    same!(deserialize_map: deserialize_struct(&'static str, &'static [&'static str]));
}

/// The elements of a list, or the fields of an object.
struct Items<'r, 't> {
    reader: &'r mut Reader<'t>,
    first: bool,
}

impl<'t> SeqAccess<'t> for Items<'_, 't> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'t>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        if !self.reader.advance(&mut self.first, b']')? {
            return Ok(None);
        }
        seed.deserialize(&mut *self.reader).map(Some)
    }
}

impl<'t> MapAccess<'t> for Items<'_, 't> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'t>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        if !self.reader.advance(&mut self.first, b'}')? {
            return Ok(None);
        }
        if self.reader.peek() != Some(b'"') {
            return Err(malformed());
        }
        seed.deserialize(&mut *self.reader).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'t>>(&mut self, seed: V) -> Result<V::Value, Error> {
        self.reader.expect(b':')?;
        seed.deserialize(&mut *self.reader)
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
            Err(Error::new(
                "this value is written as an object of one field",
            ))
        }
    }
}

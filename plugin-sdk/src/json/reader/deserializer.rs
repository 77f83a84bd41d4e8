//! The reader as serde's data format: the thin layer that exists once for each type.

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    self, DeserializeSeed, EnumAccess, MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor,
};

use super::{ANY, Next, Reader, malformed};
use crate::json::Error;

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
        match self.0.advance(b']') {
            Next::Item => seed.deserialize(&mut *self.0).map(Some),
            Next::End => Ok(None),
            Next::Malformed => Err(malformed()),
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

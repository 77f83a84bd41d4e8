//! Reads values of any shape.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Unexpected, Visitor};

use super::{Object, Value};
use crate::json::reader::ANY;

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(ANY, AnyVisitor)
    }
}

struct AnyVisitor;

impl<'de> Visitor<'de> for AnyVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    /// The digits of a number.
    fn visit_bytes<E>(self, digits: &[u8]) -> Result<Value, E> {
        let digits = str::from_utf8(digits).unwrap_or_default();
        Ok(Value::Number(digits.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Object::default();
        while let Some((key, value)) = fields.next_entry()? {
            object.push(key, value);
        }
        Ok(Value::Object(object))
    }

    /// Another reader than ours, in tests.
    #[cfg(not(target_family = "wasm"))]
    fn visit_newtype_struct<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<Value, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        crate::json::from_str(&value.to_string()).map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = match Value::deserialize(deserializer)? {
            Value::Object(object) => return Ok(object),
            Value::Null => return Ok(Self::default()),
            Value::Bool(value) => Unexpected::Bool(value),
            Value::Number(_) => Unexpected::Unsigned(0),
            Value::String(_) => Unexpected::Str(""),
            Value::List(_) => Unexpected::Seq,
        };
        Err(de::Error::invalid_type(found, &"an object"))
    }
}

impl JsonSchema for Value {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Value".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        true.into()
    }
}

impl JsonSchema for Object {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Object".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object" })
    }
}

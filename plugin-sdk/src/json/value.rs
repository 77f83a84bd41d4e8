//! JSON of any shape.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Unexpected, Visitor};

use super::push_quoted;
use super::reader::ANY;

/// JSON of any shape, kept as it was written: fields in their order, numbers digit by digit.
///
/// For parts of a configuration or a pod that a plugin passes on: fields that it does not know survive. A value that is not
/// there and one that is `null` are the same, so questions can be chained:
///
/// ```
/// use podloom_plugin_sdk::json::{self, Value};
///
/// let container: Value = json::from_str(r#"{"securityContext": {"runAsUser": 1000}, "image": "app:1"}"#)?;
/// assert_eq!(container.get("image").as_str(), Some("app:1"));
/// assert_eq!(container.get("securityContext").get("runAsUser").as_i64(), Some(1000));
/// assert!(container.get("resources").get("limits").is_null());
/// # Ok::<(), json::Error>(())
/// ```
///
/// Two values are equal if they mean the same: the order of fields does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Value {
    /// Nothing.
    #[default]
    Null,
    /// A boolean.
    Bool(bool),
    /// A number, as it was written.
    Number(String),
    /// A string.
    String(String),
    /// A list.
    List(Vec<Self>),
    /// An object.
    Object(Object),
}

/// What every value lacks.
static NULL: Value = Value::Null;

impl Value {
    /// Returns a field of an object, [`Null`](Self::Null) if there is none or this is no object.
    #[must_use]
    pub fn get(&self, key: &str) -> &Self {
        match self {
            Self::Object(object) => object.get(key),
            _ => &NULL,
        }
    }

    /// Returns whether this is `null`, or was not there.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns the boolean, `None` if this is something else.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the integer, `None` if this is something else.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Number(digits) => digits.parse().ok(),
            _ => None,
        }
    }

    /// Returns the string, `None` if this is something else.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the elements of a list, none if this is something else.
    #[must_use]
    pub fn items(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            _ => &[],
        }
    }

    /// Returns the object, `None` if this is something else.
    #[must_use]
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }

    /// Returns the value as JSON text.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut json = String::with_capacity(128);
        self.push_to(&mut json);
        json
    }

    fn push_to(&self, json: &mut String) {
        match self {
            Self::Null => json.push_str("null"),
            Self::Bool(true) => json.push_str("true"),
            Self::Bool(false) => json.push_str("false"),
            Self::Number(digits) => json.push_str(digits),
            Self::String(text) => push_quoted(json, text),
            Self::List(items) => {
                json.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        json.push(',');
                    }
                    item.push_to(json);
                }
                json.push(']');
            }
            Self::Object(object) => object.push_to(json),
        }
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number.to_string())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl From<Object> for Value {
    fn from(object: Object) -> Self {
        Self::Object(object)
    }
}

impl<T: Into<Self>> From<Vec<T>> for Value {
    fn from(items: Vec<T>) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Self>, const N: usize> From<[T; N]> for Value {
    fn from(items: [T; N]) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }
}

/// A JSON object of any shape, with its fields in the order in which they were written.
///
/// ```
/// use podloom_plugin_sdk::json::{Object, Value};
///
/// let mut volume = Object::from([("name", "tmp")]);
/// volume.set("emptyDir", Object::from([("sizeLimit", "64Mi")]));
/// assert_eq!(volume.text("name"), "tmp");
/// assert_eq!(volume.to_json(), r#"{"name":"tmp","emptyDir":{"sizeLimit":"64Mi"}}"#);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Object {
    fields: Vec<(String, Value)>,
}

impl Object {
    /// Returns a field, [`Value::Null`] if there is none.
    #[must_use]
    pub fn get(&self, key: &str) -> &Value {
        self.find(key).unwrap_or(&NULL)
    }

    fn find(&self, key: &str) -> Option<&Value> {
        let field = self.fields.iter().find(|(known, _)| known == key);
        field.map(|(_, value)| value)
    }

    /// Returns whether there is a field of this name that is not `null`.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        !self.get(key).is_null()
    }

    /// Returns the string in a field, an empty one if there is none: for Kubernetes both mean the same.
    #[must_use]
    pub fn text(&self, key: &str) -> &str {
        self.get(key).as_str().unwrap_or_default()
    }

    /// Returns the objects of the list in a field, none if there is no list.
    pub fn objects(&self, key: &str) -> impl Iterator<Item = &Self> {
        self.get(key).items().iter().filter_map(Value::as_object)
    }

    /// Returns the fields in their order.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.fields.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Writes a field, at the end if it is new.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        let value = value.into();
        match self.fields.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => *old = value,
            None => self.push(key.to_owned(), value),
        }
    }

    /// Writes a field unless it is there and not `null`.
    pub fn set_if_absent(&mut self, key: &str, value: impl Into<Value>) {
        if !self.has(key) {
            self.set(key, value);
        }
    }

    /// Appends a field that is not there yet.
    fn push(&mut self, key: String, value: Value) {
        self.fields.push((key, value));
    }

    /// Returns the object as JSON text.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut json = String::with_capacity(128);
        self.push_to(&mut json);
        json
    }

    fn push_to(&self, json: &mut String) {
        json.push('{');
        for (index, (key, value)) in self.fields.iter().enumerate() {
            if index > 0 {
                json.push(',');
            }
            push_quoted(json, key);
            json.push(':');
            value.push_to(json);
        }
        json.push('}');
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.fields.len() == other.fields.len()
            && self
                .fields()
                .all(|(key, value)| other.find(key) == Some(value))
    }
}

impl Eq for Object {}

impl<V: Into<Value>, const N: usize> From<[(&str, V); N]> for Object {
    fn from(fields: [(&str, V); N]) -> Self {
        let fields = fields.into_iter();
        Self {
            fields: fields
                .map(|(key, value)| (key.to_owned(), value.into()))
                .collect(),
        }
    }
}

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

#[cfg(test)]
mod tests;

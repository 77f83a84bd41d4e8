//! An object of any shape.

use super::{NULL, Value};
use crate::json::push_quoted;

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
    pub(super) fn push(&mut self, key: String, value: Value) {
        self.fields.push((key, value));
    }

    /// Returns the object as JSON text.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut json = String::with_capacity(128);
        self.push_to(&mut json);
        json
    }

    pub(super) fn push_to(&self, json: &mut String) {
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

//! JSON of any shape.

mod object;
mod read;

#[cfg(test)]
mod tests;

pub use object::Object;

use super::push_quoted;

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

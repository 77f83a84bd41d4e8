//! Reads JSON text into types.
//!
//! A plugin carries its own reader: `serde_json`'s names a number in each of its errors, and with that brings the code that
//! prints floating-point numbers, a third of a small plugin. This one has no more than the types need, and its errors name the
//! field. [`Pod::get`](crate::Pod::get), [`Pod::view`](crate::Pod::view) and the configuration use it.
//!
//! `null` is read as Kubernetes reads it: as nothing. Where a type wants a list, an object, a string, a boolean or a number, it
//! gets an empty one, `false` or 0; an `Option` gets `None`.
//!
//! A type may borrow its strings from the text (`&str`), which is quicker than to copy each (`String`).
//!
//! ```
//! use podloom_plugin_sdk::json;
//! use podloom_plugin_sdk::prelude::*;
//!
//! #[derive(Deserialize)]
//! #[serde(rename_all = "camelCase")]
//! struct Container {
//!     name: String,
//!     #[serde(default)]
//!     ports: Vec<Port>,
//! }
//!
//! #[derive(Default, Deserialize)]
//! #[serde(default, rename_all = "camelCase")]
//! struct Port {
//!     host_port: Option<i64>,
//! }
//!
//! let container: Container = json::from_str(r#"{"name": "app", "ports": [{"hostPort": 80}, null]}"#)?;
//! assert_eq!(container.ports[0].host_port, Some(80));
//! assert_eq!(container.ports[1].host_port, None);
//!
//! let error = json::from_str::<Container>(r#"{"name": "app", "ports": [{"hostPort": "80"}]}"#).err();
//! assert_eq!(error.unwrap().to_string(), "ports/0/hostPort: expected a number, found a string");
//! # Ok::<(), json::Error>(())
//! ```

mod reader;
mod value;

use std::fmt;

use reader::Reader;
use serde::de::{Expected, Unexpected};
use serde::{Deserialize, de};

pub use value::{Object, Value};

/// Reads a value from JSON text. Strings may be borrowed from it, as `&str`.
///
/// ```
/// let names: Vec<&str> = podloom_plugin_sdk::json::from_str(r#"["app", "proxy"]"#)?;
/// assert_eq!(names, ["app", "proxy"]);
/// # Ok::<(), podloom_plugin_sdk::json::Error>(())
/// ```
///
/// # Errors
///
/// What does not fit the type, or is no JSON, and where.
pub fn from_str<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T, Error> {
    let mut reader = Reader::new(text);
    let result = T::deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    result.map_err(|error| error.at(&reader.path()))
}

/// Returns a text as a JSON string, in quotes.
///
/// ```
/// assert_eq!(podloom_plugin_sdk::json::quote("a \"b\"\n"), r#""a \"b\"\n""#);
/// ```
#[must_use]
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    push_quoted(&mut quoted, text);
    quoted
}

/// Appends a text as a JSON string, escaped as `serde_json` does.
fn push_quoted(json: &mut String, text: &str) {
    json.reserve(text.len() + 2);
    json.push('"');
    if reader::plain_end(text.as_bytes(), 0) == text.len() {
        json.push_str(text);
    } else {
        push_escaped(json, text);
    }
    json.push('"');
}

#[cold]
fn push_escaped(json: &mut String, text: &str) {
    let mut rest = text;
    loop {
        // What is escaped is ASCII, so both parts are text.
        let end = reader::plain_end(rest.as_bytes(), 0);
        json.push_str(rest.get(..end).unwrap_or_default());
        let Some(&byte) = rest.as_bytes().get(end) else {
            return;
        };
        match byte {
            b'"' => json.push_str("\\\""),
            b'\\' => json.push_str("\\\\"),
            b'\n' => json.push_str("\\n"),
            b'\r' => json.push_str("\\r"),
            b'\t' => json.push_str("\\t"),
            0x8 => json.push_str("\\b"),
            0xc => json.push_str("\\f"),
            control => json.push_str(&format!("\\u{control:04x}")),
        }
        rest = rest.get(end + 1..).unwrap_or_default();
    }
}

/// Why a text could not be read: the field, as a path, and what is wrong with it.
// Boxed, so that a result is hardly larger than the value that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Box<(String, String)>);

impl Error {
    #[cold]
    fn new(message: impl Into<String>) -> Self {
        Self(Box::new((String::new(), message.into())))
    }

    /// Names the place that was reached.
    #[cold]
    fn at(mut self, path: &str) -> Self {
        self.0.0.push_str(path);
        self
    }

    /// Returns the path of the place that could not be read, from the text's root: `ports/0/hostPort`, empty for the root itself.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0.0
    }

    /// Returns what is wrong there.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.1
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path().is_empty() {
            write!(f, "{}: ", self.path())?;
        }
        f.write_str(self.message())
    }
}

impl std::error::Error for Error {}

impl de::Error for Error {
    #[cold]
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(message.to_string())
    }

    #[cold]
    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format!("expected {expected}, found {}", kind(found)))
    }

    #[cold]
    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    #[cold]
    fn invalid_length(_: usize, expected: &dyn Expected) -> Self {
        Self::new(format!("expected {expected}"))
    }

    #[cold]
    fn unknown_variant(variant: &str, known: &'static [&'static str]) -> Self {
        Self::new(format!(
            "unknown value {variant}, known: {}",
            known.join(", ")
        ))
    }

    #[cold]
    fn unknown_field(field: &str, known: &'static [&'static str]) -> Self {
        Self::new(format!(
            "unknown field {field}, known: {}",
            known.join(", ")
        ))
    }

    #[cold]
    fn missing_field(field: &'static str) -> Self {
        Self::new(format!("field {field} is missing"))
    }

    #[cold]
    fn duplicate_field(field: &'static str) -> Self {
        Self::new(format!("field {field} is given twice"))
    }
}

/// Naming the kind is enough, and leaves the printing of numbers out.
fn kind(found: Unexpected<'_>) -> &'static str {
    match found {
        Unexpected::Bool(_) => "a boolean",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) | Unexpected::Float(_) => "a number",
        Unexpected::Str(_) | Unexpected::Char(_) | Unexpected::Bytes(_) => "a string",
        Unexpected::Unit | Unexpected::Option => "null",
        Unexpected::Seq => "a list",
        Unexpected::Map => "an object",
        _ => "something else",
    }
}

#[cfg(test)]
mod tests;

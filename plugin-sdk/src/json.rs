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

mod error;
mod reader;
mod value;

#[cfg(test)]
mod tests;

use serde::Deserialize;

pub use error::Error;
use reader::Reader;
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

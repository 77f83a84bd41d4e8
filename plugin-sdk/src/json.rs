//! Reads JSON text into types.
//!
//! A plugin carries its own reader: `serde_json`'s names a number in each of its errors, and with that brings the code that
//! prints floating-point numbers, a third of a small plugin. This one has no more than the types need, and its errors name the
//! field. [`Pod::get`](crate::Pod::get) and the configuration use it.

mod raw;
mod reader;

#[cfg(test)]
mod tests;

use std::fmt;

use serde::de::{self, DeserializeOwned, Expected, Unexpected};

pub use raw::Raw;
use reader::Reader;

/// Reads a value from JSON text.
///
/// ```
/// let names: Vec<String> = podloom_plugin_sdk::json::from_str(r#"["app", "proxy"]"#)?;
/// assert_eq!(names, ["app", "proxy"]);
/// # Ok::<(), podloom_plugin_sdk::json::Error>(())
/// ```
///
/// # Errors
///
/// What does not fit the type, or is no JSON, and where.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    from_str_seed(text, std::marker::PhantomData)
}

/// Reads a value from JSON text by a seed, which may know where to put it.
///
/// # Errors
///
/// What does not fit the seed, or is no JSON, and where.
pub fn from_str_seed<'t, S: de::DeserializeSeed<'t>>(
    text: &'t str,
    seed: S,
) -> Result<S::Value, Error> {
    let mut reader = Reader::new(text);
    let result = seed
        .deserialize(&mut reader)
        .and_then(|value| reader.end().map(|()| value));
    result.map_err(|error| error.at(&reader.path()))
}

/// Returns a text as a JSON string, in quotes.
///
/// ```
/// assert_eq!(podloom_plugin_sdk::json::quote("a \"b\""), r#""a \"b\"""#);
/// ```
#[must_use]
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    let mut start = 0;
    loop {
        let end = reader::plain_end(text.as_bytes(), start);
        // Both ends are ASCII characters or the text's end.
        quoted.push_str(text.get(start..end).unwrap_or_default());
        let Some(&byte) = text.as_bytes().get(end) else {
            quoted.push('"');
            return quoted;
        };
        match byte {
            b'"' | b'\\' => {
                quoted.push('\\');
                quoted.push(char::from(byte));
            }
            control => {
                quoted.push_str("\\u00");
                quoted.push(if control < 0x10 { '0' } else { '1' });
                quoted.extend(char::from_digit(u32::from(control % 16), 16));
            }
        }
        start = end + 1;
    }
}

/// Why a text could not be read: the field, as a path, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    message: String,
}

impl Error {
    fn new(message: &str) -> Self {
        Self {
            message: message.to_owned(),
        }
    }

    /// Names the place that was reached.
    #[cold]
    fn at(self, path: &str) -> Self {
        if path.is_empty() {
            return self;
        }
        Self {
            message: [path, ": ", &self.message].concat(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl de::Error for Error {
    #[cold]
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self {
            message: message.to_string(),
        }
    }

    #[cold]
    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let expected = expected.to_string();
        Self {
            message: ["expected ", &expected, ", found ", kind(found)].concat(),
        }
    }

    #[cold]
    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    #[cold]
    fn invalid_length(_: usize, expected: &dyn Expected) -> Self {
        Self {
            message: ["expected ", &expected.to_string()].concat(),
        }
    }

    #[cold]
    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        unknown("value", variant, expected)
    }

    #[cold]
    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        unknown("field", field, expected)
    }

    #[cold]
    fn missing_field(field: &'static str) -> Self {
        Self {
            message: ["field ", field, " is missing"].concat(),
        }
    }

    #[cold]
    fn duplicate_field(field: &'static str) -> Self {
        Self {
            message: ["field ", field, " is given twice"].concat(),
        }
    }
}

/// Naming the kind is enough, and leaves the printing of numbers out.
fn kind(found: Unexpected<'_>) -> &'static str {
    match found {
        Unexpected::Bool(_) => "a boolean",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) | Unexpected::Float(_) => "a number",
        Unexpected::Str(_) | Unexpected::Char(_) | Unexpected::Bytes(_) => "a text",
        Unexpected::Unit | Unexpected::Option => "null",
        Unexpected::Seq => "a list",
        Unexpected::Map => "an object",
        _ => "something else",
    }
}

fn unknown(what: &str, found: &str, expected: &[&str]) -> Error {
    let known = expected.join(", ");
    Error {
        message: ["unknown ", what, " ", found, ", known: ", &known].concat(),
    }
}

//! What is wrong with a text.

use std::fmt;

use serde::de::{self, Expected, Unexpected};

/// Why a text could not be read: the field, as a path, and what is wrong with it.
// Boxed, so that a result is hardly larger than the value that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Box<Parts>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Parts {
    path: String,
    message: String,
}

impl Error {
    #[cold]
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self(Box::new(Parts {
            path: String::new(),
            message: message.into(),
        }))
    }

    /// Names the place that was reached.
    #[cold]
    pub(super) fn at(mut self, path: &str) -> Self {
        self.0.path.push_str(path);
        self
    }

    /// Returns the path of the place that could not be read, from the text's root: `ports/0/hostPort`, empty for the root itself.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Returns what is wrong there.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
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

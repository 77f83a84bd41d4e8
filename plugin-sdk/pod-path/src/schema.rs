//! What a Pod is made of.

mod table;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub(crate) use table::ROOT;

/// What may stand at a place of a pod.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Schema {
    /// A field that the table does not know, so that newer versions of Kubernetes work.
    Anything,
    String,
    Int32,
    Int64,
    Boolean,
    /// A string, or a number: `500m`, `2`.
    Quantity,
    IntOrString,
    /// A string, as RFC 3339 writes times.
    DateTime,
    Object(&'static Type),
    /// An object with free keys, and the type of its values.
    Map(&'static Self),
    /// A list, the type of its elements, and the field that tells them apart.
    List(&'static Self, Option<&'static str>),
}

/// An object with known fields.
#[derive(Debug)]
pub(crate) struct Type {
    pub(crate) name: &'static str,
    /// Sorted by name.
    pub(crate) fields: &'static [(&'static str, Schema)],
}

/// The shape of a value, as far as a path cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Object,
    List,
    Scalar,
    Unknown,
}

impl Schema {
    /// What stands in an object's field.
    pub(crate) fn field(self, key: &str) -> Self {
        match self {
            Self::Object(of) => of.field(key),
            Self::Map(values) => *values,
            _ => Self::Anything,
        }
    }

    /// What a list's elements are.
    pub(crate) fn element(self) -> Self {
        match self {
            Self::List(element, _) => *element,
            _ => Self::Anything,
        }
    }

    /// The field that tells a list's elements apart.
    pub(crate) fn element_key(self) -> Option<&'static str> {
        match self {
            Self::List(_, key) => key,
            _ => None,
        }
    }

    pub(crate) fn shape(self) -> Shape {
        match self {
            Self::Object(_) | Self::Map(_) => Shape::Object,
            Self::List(..) => Shape::List,
            Self::Anything => Shape::Unknown,
            _ => Shape::Scalar,
        }
    }

    /// What messages call it.
    pub(crate) fn noun(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Anything => "any value",
            Self::String => "a string",
            Self::Int32 => "a 32-bit integer",
            Self::Int64 => "a 64-bit integer",
            Self::Boolean => "a boolean",
            Self::Quantity => "a quantity (a string or a number)",
            Self::IntOrString => "a 32-bit integer or a string",
            Self::DateTime => "a time (a string, as in RFC 3339)",
            Self::Object(of) => return Cow::Owned(format!("an object ({})", of.name)),
            Self::Map(_) => "an object",
            Self::List(..) => "a list",
        })
    }
}

impl Type {
    fn field(&self, key: &str) -> Schema {
        // Lengths differ mostly, so that going through them all is quicker than searching by halves.
        self.fields
            .iter()
            .find(|(name, _)| *name == key)
            .map_or(Schema::Anything, |(_, schema)| *schema)
    }
}

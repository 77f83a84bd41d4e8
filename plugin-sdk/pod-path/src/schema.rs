//! The schema of a Pod.

mod rule;
mod table;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub(crate) use rule::Rule;
pub(crate) use table::ROOT;

/// The type of a value in a pod.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Schema {
    /// Any value, for fields of newer versions of Kubernetes.
    Anything,
    String,
    Int32,
    Int64,
    Boolean,
    /// A string, or a number: `500m`, `2`.
    Quantity,
    IntOrString,
    /// A string with a time as in RFC 3339.
    DateTime,
    /// A scalar with a rule for its value.
    Checked(&'static Self, Rule),
    Object(&'static Type),
    /// An object with any keys; holds the type of its values, and the rule for its keys.
    Map(&'static Self, Option<Rule>),
    /// A list; holds the type of its elements and its merge key.
    List(&'static Self, Option<&'static str>),
}

/// An object with known fields.
#[derive(Debug)]
pub(crate) struct Type {
    pub(crate) name: &'static str,
    /// Sorted by name.
    pub(crate) fields: &'static [(&'static str, Schema)],
}

/// The shape of a value, as far as it matters to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Object,
    List,
    Scalar,
    Unknown,
}

impl Schema {
    /// The type of an object's field.
    pub(crate) fn field(self, key: &str) -> Self {
        match self {
            Self::Object(of) => of.field(key),
            Self::Map(values, _) => *values,
            _ => Self::Anything,
        }
    }

    /// The type of a list's elements.
    pub(crate) fn element(self) -> Self {
        match self {
            Self::List(element, _) => *element,
            _ => Self::Anything,
        }
    }

    /// The list's merge key: the field by which Kubernetes distinguishes its elements.
    pub(crate) fn element_key(self) -> Option<&'static str> {
        match self {
            Self::List(_, key) => key,
            _ => None,
        }
    }

    pub(crate) fn shape(self) -> Shape {
        match self {
            Self::Object(_) | Self::Map(..) => Shape::Object,
            Self::List(..) => Shape::List,
            Self::Anything => Shape::Unknown,
            _ => Shape::Scalar,
        }
    }

    /// Its name in messages.
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
            Self::Checked(scalar, _) => return scalar.noun(),
            Self::Object(of) => return Cow::Owned(format!("an object ({})", of.name)),
            Self::Map(..) => "an object",
            Self::List(..) => "a list",
        })
    }
}

impl Type {
    fn field(&self, key: &str) -> Schema {
        // Lengths mostly differ, so a linear search is faster than a binary one.
        self.fields
            .iter()
            .find(|(name, _)| *name == key)
            .map_or(Schema::Anything, |(_, schema)| *schema)
    }
}

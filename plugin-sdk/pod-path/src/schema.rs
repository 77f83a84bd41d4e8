//! The schema of a Pod.

mod table;

use std::borrow::Cow;

use podloom_syntax::{Quantity, names};
use serde_json::{Number, Value};

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

/// A rule for a value, or for the keys of a map: what the API server accepts at a pod's creation, beyond the type.
///
/// Which field has which rule stands in `host/xtask/src/codegen/rules.rs`, from where it comes into the table.
/// A rule never refuses what an API server from Kubernetes 1.33 to 1.37 accepts, and it takes an empty text for an absent value where the API server does.
/// The refused text is shown in the message, so no field whose value may be secret has a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    AnnotationKey,
    ConfigKey,
    DnsLabel,
    DnsSubdomain,
    EnvName,
    /// A DNS subdomain, which the API server checks as if a generated suffix followed.
    EnvSourceName,
    LabelKey,
    LabelValue,
    PortName,
    /// No white space at either end.
    Trimmed,
    /// A port by its number, or by its name.
    Port,
    /// A port, or 0 for none.
    OptionalPort,
    /// The permissions of a file.
    FileMode,
    /// Any quantity.
    Quantity,
    /// A quantity that is not negative.
    Amount,
}

const NO_PORT: &str = "is no port: write a number from 1 to 65535";
const NO_MODE: &str = "is no file mode: write a number from 0 to 511, which is 0777";
const NEGATIVE: &str = "is negative: write 0 or more";
const UNTRIMMED: &str = "has white space at an end: remove it";

impl Rule {
    /// Returns what is wrong with a value of the right type, as the end of a sentence that begins with the value.
    pub(crate) fn problem(self, value: &Value) -> Option<Cow<'static, str>> {
        match value {
            Value::String(text) if text.is_empty() && !self.needs_text() => None,
            Value::String(text) => self.problem_of_text(text),
            Value::Number(number) => self.problem_of_number(number).map(Cow::Borrowed),
            _ => None,
        }
    }

    /// Whether the API server refuses an empty text, instead of taking it for an absent value.
    fn needs_text(self) -> bool {
        matches!(self, Self::Port | Self::Quantity | Self::Amount)
    }

    /// As [`problem`](Self::problem), for a key of a map.
    pub(crate) fn problem_of_text(self, text: &str) -> Option<Cow<'static, str>> {
        let found = match self {
            Self::AnnotationKey => names::annotation_key(text),
            Self::ConfigKey => names::config_key(text),
            Self::DnsLabel => names::dns_label(text),
            Self::DnsSubdomain => names::dns_subdomain(text),
            Self::EnvName => names::env_name(text),
            Self::EnvSourceName => names::dns_subdomain(&without_dash(text)),
            Self::LabelKey => names::label_key(text),
            Self::LabelValue => names::label_value(text),
            Self::PortName | Self::Port => names::port_name(text),
            Self::Trimmed if text.trim().len() < text.len() => Err(UNTRIMMED),
            Self::Trimmed | Self::OptionalPort | Self::FileMode => Ok(()),
            Self::Quantity | Self::Amount => return self.problem_of_quantity(text),
        };
        found.err().map(Cow::Borrowed)
    }

    fn problem_of_number(self, number: &Number) -> Option<&'static str> {
        let is_within = |least: i64, most: i64| {
            number
                .as_i64()
                .is_some_and(|number| (least..=most).contains(&number))
        };
        match self {
            Self::Port if !is_within(1, 65535) => Some(NO_PORT),
            Self::OptionalPort if !is_within(0, 65535) => Some(NO_PORT),
            Self::FileMode if !is_within(0, 0o777) => Some(NO_MODE),
            Self::Amount if number.as_f64().is_some_and(|number| number < 0.0) => Some(NEGATIVE),
            _ => None,
        }
    }

    fn problem_of_quantity(self, text: &str) -> Option<Cow<'static, str>> {
        if is_plain_quantity(text) {
            return None;
        }
        match text.parse::<Quantity>() {
            Ok(quantity) if self == Self::Amount && quantity.is_negative() => {
                Some(Cow::Borrowed(NEGATIVE))
            }
            Ok(_) => None,
            Err(_) if is_read_leniently(text) => None,
            Err(error) => Some(Cow::Owned(error.to_string())),
        }
    }
}

/// A name as the API server checks it where a suffix could follow: without a `-` at its end, and without the letter before.
fn without_dash(text: &str) -> Cow<'_, str> {
    let start = text.strip_suffix('-').and_then(|text| {
        let end = text.len().checked_sub(1)?;
        text.get(..end)
    });
    start.map_or(Cow::Borrowed(text), |start| Cow::Owned(format!("{start}a")))
}

/// Whether a text is a quantity as nearly all are written. Parsing one takes longer.
fn is_plain_quantity(text: &str) -> bool {
    let suffix = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    suffix.len() < text.len() && matches!(suffix, "" | "m" | "k" | "M" | "G" | "Ki" | "Mi" | "Gi")
}

/// Whether the API server may accept a text that is no quantity for us: with spaces around it, or a suffix without a number, which it
/// takes for 0.
fn is_read_leniently(text: &str) -> bool {
    // Control characters are escaped in JSON, and the API server reads the escaped text.
    let text = text.trim_matches(|letter: char| letter >= ' ' && letter.is_whitespace());
    let suffix = text.trim_start_matches(['+', '-', '.']);
    let number = if text.contains(|letter: char| letter.is_ascii_digit()) {
        text.to_owned()
    } else {
        format!("0{suffix}")
    };
    !text.is_empty() && number.parse::<Quantity>().is_ok()
}

#[cfg(test)]
mod tests;

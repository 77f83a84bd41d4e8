//! Checks values against the schema, and measures their size and depth.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::Value;

use crate::error::AccessError;
use crate::path::push_escaped;
use crate::schema::Schema;

/// What is left to check of a value that has the right type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// Nothing.
    Whole,
    /// It breaks a rule somewhere; [`crate::breach`] finds out whether the pod had that value before.
    BreaksRule,
}

/// Checks the type of a value that is written to a field.
///
/// `null` is allowed for a field, since the API server treats it as absent. In a list or map it would be kept as an empty element.
pub(crate) fn check(path: &str, value: &Value, schema: Schema) -> Result<Fit, AccessError> {
    if value.is_null() {
        return Ok(Fit::Whole);
    }
    check_member(path, value, schema)
}

/// Checks the type of a value that is written to a list element or map value.
pub(crate) fn check_member(path: &str, value: &Value, schema: Schema) -> Result<Fit, AccessError> {
    let mut fit = Fit::Whole;
    match find_misfit(value, schema, &mut fit) {
        None => Ok(fit),
        Some(misfit) => Err(misfit.error(path)),
    }
}

/// Whether a value has the right type.
pub(crate) fn has_type(value: &Value, schema: Schema) -> bool {
    find_misfit(value, schema, &mut Fit::Whole).is_none()
}

/// A value of the wrong type, and the path to it, innermost segment first.
struct Misfit {
    segments: Vec<String>,
    expected: Schema,
    found: String,
}

impl Misfit {
    fn error(self, path: &str) -> AccessError {
        let mut place = path.to_owned();
        for segment in self.segments.iter().rev() {
            place.push('/');
            place.push_str(segment);
        }
        let expected = match self.expected {
            // A value without a type can only be wrong by being null.
            Schema::Anything => Cow::Borrowed("a value that is not null"),
            expected => expected.noun(),
        };
        AccessError::invalid_value(
            &place,
            format_args!("expected {expected}, found {}", self.found),
        )
    }

    fn at_key(mut self, key: &str) -> Self {
        let mut segment = String::with_capacity(key.len());
        push_escaped(&mut segment, key);
        self.segments.push(segment);
        self
    }

    fn at_index(mut self, index: usize) -> Self {
        let mut segment = String::new();
        // Writing to a string cannot fail.
        let _ = write!(segment, "{index}");
        self.segments.push(segment);
        self
    }
}

fn find_misfit(value: &Value, schema: Schema, fit: &mut Fit) -> Option<Misfit> {
    let fits = match (schema, value) {
        (Schema::Object(of), Value::Object(fields)) => {
            return fields
                .iter()
                .filter(|(_, value)| !value.is_null())
                .find_map(|(key, value)| {
                    find_misfit(value, Schema::Object(of).field(key), fit)
                        .map(|misfit| misfit.at_key(key))
                });
        }
        (Schema::Map(values, rule), Value::Object(fields)) => {
            return fields.iter().find_map(|(key, value)| {
                if rule.is_some_and(|rule| rule.problem_of_text(key).is_some()) {
                    *fit = Fit::BreaksRule;
                }
                find_misfit(value, *values, fit).map(|misfit| misfit.at_key(key))
            });
        }
        (Schema::List(element, _), Value::Array(list)) => {
            return list.iter().enumerate().find_map(|(index, value)| {
                find_misfit(value, *element, fit).map(|misfit| misfit.at_index(index))
            });
        }
        (Schema::Checked(scalar, rule), value) => {
            if rule.problem(value).is_some() {
                *fit = Fit::BreaksRule;
            }
            return find_misfit(value, *scalar, fit);
        }
        (Schema::Anything, value) => !value.is_null(),
        (Schema::String | Schema::DateTime, Value::String(_))
        | (Schema::Boolean, Value::Bool(_))
        | (Schema::Quantity, Value::String(_) | Value::Number(_))
        | (Schema::IntOrString, Value::String(_)) => true,
        (Schema::Int32 | Schema::IntOrString, Value::Number(number)) => number
            .as_i64()
            .is_some_and(|number| i32::try_from(number).is_ok()),
        (Schema::Int64, Value::Number(number)) => number.is_i64(),
        _ => false,
    };
    (!fits).then(|| Misfit {
        segments: Vec::new(),
        expected: schema,
        found: noun(value).to_owned(),
    })
}

/// The kind of a value, for messages, which never show the value itself since it may be secret.
pub(crate) fn noun(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The scalar that a selector's text means in a field of this type; none if the type has no such scalar.
pub(crate) fn scalar(text: &str, schema: Schema) -> Option<Value> {
    let number = || {
        text.parse::<i64>()
            .ok()
            .map(|number| Value::Number(number.into()))
    };
    match schema {
        Schema::Anything | Schema::String | Schema::DateTime | Schema::Quantity => {
            Some(Value::String(text.to_owned()))
        }
        Schema::IntOrString => Some(number().unwrap_or_else(|| Value::String(text.to_owned()))),
        Schema::Int32 | Schema::Int64 => number(),
        Schema::Boolean => text.parse().ok().map(Value::Bool),
        Schema::Checked(inner, _) => scalar(text, *inner),
        Schema::Object(_) | Schema::Map(..) | Schema::List(..) => None,
    }
}

/// How many levels a value has; a scalar has none.
pub(crate) fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// About how many bytes a value takes as JSON; escapes in strings are not counted.
pub(crate) fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        // The longest integer.
        Value::Number(_) => 20,
        Value::String(text) => text.len() + 2,
        Value::Array(list) => 2 + list.iter().map(|value| size(value) + 1).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields
                .iter()
                .map(|(key, value)| key.len() + size(value) + 4)
                .sum::<usize>()
        }
    }
}

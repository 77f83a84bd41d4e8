//! Checks values against the schema: their types, and the rules that a write must not break. Measures their size and depth.

use std::borrow::Cow;
use std::collections::BTreeMap;

use podloom_syntax::text;
use serde_json::Value;

use crate::error::AccessError;
use crate::path::push_escaped;
use crate::schema::{Rule, Schema};

/// Checks the type of a value that is written to a field. Returns whether it breaks a rule somewhere; [`check_rules`] finds out whether
/// the pod had that value before.
///
/// `null` is allowed for a field, since the API server treats it as absent. In a list or map it would be kept as an empty element.
pub(crate) fn check(path: &str, value: &Value, schema: Schema) -> Result<bool, AccessError> {
    if value.is_null() {
        return Ok(false);
    }
    check_member(path, value, schema)
}

/// Checks the type of a value that is written to a list element or map value.
pub(crate) fn check_member(path: &str, value: &Value, schema: Schema) -> Result<bool, AccessError> {
    let mut breaks_rule = false;
    let Some((below, expected, found)) = find_misfit(value, schema, &mut breaks_rule) else {
        return Ok(breaks_rule);
    };
    let expected = match expected {
        // A value without a type can only be wrong by being null.
        Schema::Anything => Cow::Borrowed("a value that is not null"),
        expected => expected.noun(),
    };
    let place = format!("{path}{below}");
    let reason = format_args!("expected {expected}, found {found}");
    Err(AccessError::invalid_value(&place, reason))
}

/// Whether a value has the right type.
pub(crate) fn has_type(value: &Value, schema: Schema) -> bool {
    find_misfit(value, schema, &mut false).is_none()
}

/// Finds a value of the wrong type: the path to it, the right type, and what it is.
fn find_misfit(
    value: &Value,
    schema: Schema,
    breaks_rule: &mut bool,
) -> Option<(String, Schema, &'static str)> {
    let under = |segment: &str, (below, expected, found): (String, _, _)| {
        let mut path = String::from("/");
        push_escaped(&mut path, segment);
        (path + &below, expected, found)
    };
    let fits = match (schema, value) {
        (Schema::Object(of), Value::Object(fields)) => {
            return fields
                .iter()
                .filter(|(_, value)| !value.is_null())
                .find_map(|(key, value)| {
                    find_misfit(value, Schema::Object(of).field(key), breaks_rule)
                        .map(|misfit| under(key, misfit))
                });
        }
        (Schema::Map(values, rule), Value::Object(fields)) => {
            return fields.iter().find_map(|(key, value)| {
                if rule.is_some_and(|rule| rule.problem_of_text(key).is_some()) {
                    *breaks_rule = true;
                }
                find_misfit(value, *values, breaks_rule).map(|misfit| under(key, misfit))
            });
        }
        (Schema::List(element, _), Value::Array(list)) => {
            return list.iter().enumerate().find_map(|(index, value)| {
                find_misfit(value, *element, breaks_rule)
                    .map(|misfit| under(&index.to_string(), misfit))
            });
        }
        (Schema::Checked(scalar, rule), value) => {
            if rule.problem(value).is_some() {
                *breaks_rule = true;
            }
            return find_misfit(value, *scalar, breaks_rule);
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
    (!fits).then(|| (String::new(), schema, noun(value)))
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

/// Checks the last key of a path, which is new in its map.
pub(crate) fn check_key(path: &str, key: &str, rule: Rule) -> Result<(), AccessError> {
    match rule.problem_of_text(key) {
        None => Ok(()),
        Some(problem) => Err(refusal(path, &format!("the key {:?}", cut(key)), &problem)),
    }
}

/// Checks the rules for a value, of the right type, that replaces an old one. What the pod had before, the write did not break.
pub(crate) fn check_rules(
    path: &mut String,
    new: &Value,
    old: Option<&Value>,
    schema: Schema,
) -> Result<(), AccessError> {
    let length = path.len();
    match (schema, new) {
        (Schema::Object(_) | Schema::Map(..), Value::Object(fields)) => {
            for (key, value) in fields {
                path.push('/');
                push_escaped(path, key);
                let before = old.and_then(|old| old.get(key));
                if let (Schema::Map(_, Some(rule)), None) = (schema, before) {
                    check_key(path, key, rule)?;
                }
                check_rules(path, value, before, schema.field(key))?;
                path.truncate(length);
            }
            Ok(())
        }
        (Schema::List(element, key), Value::Array(list)) => {
            let olds = old.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            // By the text of their merge key, so that a long list takes no time to search.
            let keyed = olds.iter().filter_map(|old| Some((key_of(old, key)?, old)));
            let by_key: BTreeMap<String, &Value> = keyed.collect();
            for (index, value) in list.iter().enumerate() {
                // The element that a new one replaces: the one with the same merge key, or else the one at its index.
                let same = key_of(value, key).and_then(|key| by_key.get(&key).copied());
                path.push_str(&format!("/{index}"));
                check_rules(path, value, same.or_else(|| olds.get(index)), *element)?;
                path.truncate(length);
            }
            Ok(())
        }
        (Schema::Checked(_, rule), new) if old != Some(new) => match rule.problem(new) {
            None => Ok(()),
            Some(problem) => Err(refusal(path, &value_noun(new), &problem)),
        },
        _ => Ok(()),
    }
}

/// The merge key of a list's element, as JSON.
fn key_of(element: &Value, key: Option<&'static str>) -> Option<String> {
    Some(element.get(key?)?.to_string())
}

fn refusal(path: &str, what: &str, problem: &str) -> AccessError {
    AccessError::invalid_value(path, format_args!("{what} {problem}"))
}

fn value_noun(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{:?}", cut(text)),
        value => value.to_string(),
    }
}

/// A text as messages show it, which must not be as long as a plugin likes.
fn cut(text: &str) -> Cow<'_, str> {
    const LONGEST: usize = 80;
    text::cut(text, LONGEST, "...")
}

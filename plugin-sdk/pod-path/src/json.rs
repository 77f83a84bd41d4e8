//! Writes values as JSON text.

use serde_json::{Map, Value};

use crate::check::size;

/// A value as JSON, in one allocation unless strings need many escapes.
pub(crate) fn json(value: &Value) -> String {
    let mut text = Vec::with_capacity(size(value));
    write_json(&mut text, value);
    String::from_utf8(text).unwrap_or_default()
}

/// As [`json`], but without null fields, at any depth: they count as absent.
pub(crate) fn json_as_read(value: &Value) -> String {
    let mut text = Vec::with_capacity(size(value));
    write_json_as_read(&mut text, value);
    String::from_utf8(text).unwrap_or_default()
}

/// Writes a value as `serde_json` does, in half the time: nearly all strings need no escapes and are copied as they are.
/// The result is UTF-8.
pub(crate) fn write_json(text: &mut Vec<u8>, value: &Value) {
    write::<true>(text, value);
}

/// As [`write_json`], but without null fields, at any depth. Null elements of lists stay, since they have a position.
pub(crate) fn write_json_as_read(text: &mut Vec<u8>, value: &Value) {
    write::<false>(text, value);
}

fn write<const NULL_FIELDS: bool>(text: &mut Vec<u8>, value: &Value) {
    match value {
        Value::String(string) => write_string(text, string),
        Value::Array(list) => {
            text.push(b'[');
            for (index, element) in list.iter().enumerate() {
                if index > 0 {
                    text.push(b',');
                }
                write::<NULL_FIELDS>(text, element);
            }
            text.push(b']');
        }
        Value::Object(fields) => {
            text.push(b'{');
            let mut is_first = true;
            for (key, value) in fields {
                if !NULL_FIELDS && value.is_null() {
                    continue;
                }
                if !is_first {
                    text.push(b',');
                }
                is_first = false;
                write_string(text, key);
                text.push(b':');
                write::<NULL_FIELDS>(text, value);
            }
            text.push(b'}');
        }
        // Writing to memory cannot fail.
        scalar => drop(serde_json::to_writer(text, scalar)),
    }
}

pub(crate) fn write_string(text: &mut Vec<u8>, string: &str) {
    // Without an early return, so that the compiler vectorizes it.
    let is_plain = string.bytes().fold(true, |plain, byte| {
        plain & (byte >= 0x20) & (byte != b'"') & (byte != b'\\')
    });
    if !is_plain {
        // Writing to memory cannot fail.
        return drop(serde_json::to_writer(text, string));
    }
    text.reserve(string.len() + 2);
    text.push(b'"');
    text.extend_from_slice(string.as_bytes());
    text.push(b'"');
}

/// Whether two values are equal as they are read: without null fields.
pub(crate) fn is_read_alike(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let present = |fields: &Map<String, Value>| {
                fields.values().filter(|value| !value.is_null()).count()
            };
            let mut fields = one.iter().filter(|(_, value)| !value.is_null());
            present(one) == present(other)
                && fields.all(|(key, value)| {
                    other
                        .get(key)
                        .is_some_and(|other| is_read_alike(value, other))
                })
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && std::iter::zip(one, other).all(|(one, other)| is_read_alike(one, other))
        }
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests;

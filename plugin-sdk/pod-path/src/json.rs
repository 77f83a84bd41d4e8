//! Values as JSON text, and the memory that they take.

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
    if !is_plain(string.as_bytes()) {
        // Writing to memory cannot fail.
        return drop(serde_json::to_writer(text, string));
    }
    text.reserve(string.len() + 2);
    text.push(b'"');
    text.extend_from_slice(string.as_bytes());
    text.push(b'"');
}

/// Whether a string has nothing that JSON escapes. Most of a pod is strings, so eight bytes are looked at together.
fn is_plain(string: &[u8]) -> bool {
    const EACH: u64 = u64::from_ne_bytes([1; 8]);
    /// Where a byte shows that it was below another one.
    const BORROWED: u64 = EACH << 7;
    let below = |eight: u64, least: u8| eight.wrapping_sub(EACH * u64::from(least)) & !eight;
    let is = |eight: u64, byte: u8| below(eight ^ (EACH * u64::from(byte)), 1);
    let (eights, rest) = string.as_chunks();
    let are_plain = |eight: &[u8; 8]| {
        let eight = u64::from_ne_bytes(*eight);
        let escaped = below(eight, b' ') | is(eight, b'"') | is(eight, b'\\');
        escaped & BORROWED == 0
    };
    let is_escaped = |byte: &u8| *byte < b' ' || *byte == b'"' || *byte == b'\\';
    eights.iter().all(are_plain) && !rest.iter().any(is_escaped)
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

/// Overhead of an allocation.
const ALLOCATION: usize = 16;
/// A map's first entry allocates a leaf for eleven entries.
const LEAF: usize = 640;
/// The capacity of that leaf.
const IN_LEAF: usize = 11;
/// More entries need a second leaf and a node above both.
const SECOND_LEAF: usize = 1400;
/// Each further entry needs its share of more leaves, which are at least nearly half full.
const BEYOND_LEAF: usize = 160;
/// A list's first element allocates memory for four.
const IN_LIST: usize = 4;

/// Memory of a value, without its slot in the parent.
pub(crate) fn cost(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => string(text.len()),
        Value::Array(list) => elements(list.len()) + list.iter().map(cost).sum::<usize>(),
        Value::Object(fields) => {
            let each = |(key, value): (&String, &Value)| string(key.len()) + cost(value);
            entries(fields.len()) + fields.iter().map(each).sum::<usize>()
        }
    }
}

/// Memory of a string.
pub(crate) fn string(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { bytes + ALLOCATION }
}

/// Memory of a list without its elements' own. The capacity doubles as it grows.
fn elements(count: usize) -> usize {
    match count {
        0 => 0,
        count => count.next_power_of_two().max(IN_LIST) * size_of::<Value>() + ALLOCATION,
    }
}

/// Memory of a map without its keys and values.
pub(crate) fn entries(count: usize) -> usize {
    match count {
        0 => 0,
        1..=IN_LEAF => LEAF + ALLOCATION,
        count => LEAF + SECOND_LEAF + ALLOCATION + (count - IN_LEAF) * BEYOND_LEAF,
    }
}

/// Estimates of a JSON text before it is parsed. JSON is dense: `{"":` has five bytes, but the level of the tree that it becomes takes
/// more than 600. So a text is scanned before it is parsed, and writes are charged for the tree that they become. The text may be
/// invalid; then they cover at least its valid beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forecast {
    /// How deeply it nests.
    pub(crate) depth: usize,
    /// Memory of its value.
    pub(crate) cost: usize,
}

impl Forecast {
    /// The maximum for texts of this length: a level of one byte allocates memory for four elements.
    pub(crate) const fn highest_cost(bytes: usize) -> usize {
        bytes.saturating_mul(IN_LIST * size_of::<Value>() + 2 * ALLOCATION)
    }

    /// Scans a text. Allocates a few bytes for each level, and stops at the depth `deepest`.
    pub(crate) fn of(text: &str, deepest: usize) -> Self {
        let mut forecast = Self { depth: 0, cost: 0 };
        // Each open level, and how many elements or entries it has so far.
        let mut levels: Vec<(u8, usize)> = Vec::new();
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            let level = levels.last_mut();
            match (byte, level) {
                (b' ' | b'\n' | b'\r' | b'\t' | b':', _) => continue,
                (b']' | b'}', _) => {
                    forecast.close(levels.pop());
                    continue;
                }
                (b',', Some((_, count))) => *count += 1,
                (_, Some((_, count @ 0))) => *count = 1,
                _ => {}
            }
            match byte {
                b'"' => forecast.cost += string(string_bytes(&mut bytes)),
                b'[' | b'{' => {
                    levels.push((byte, 0));
                    forecast.depth = forecast.depth.max(levels.len());
                    if levels.len() > deepest {
                        break;
                    }
                }
                _ => {}
            }
        }
        while let Some(level) = levels.pop() {
            forecast.close(Some(level));
        }
        forecast
    }

    fn close(&mut self, level: Option<(u8, usize)>) {
        self.cost += match level {
            Some((b'[', count)) => elements(count),
            Some((_, count)) => entries(count),
            None => 0,
        };
    }
}

/// Skips to the end of a string and counts its bytes.
fn string_bytes(bytes: &mut std::str::Bytes<'_>) -> usize {
    let mut count = 0;
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => break,
            b'\\' => drop(bytes.next()),
            _ => {}
        }
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests;

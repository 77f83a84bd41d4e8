//! How much memory a value takes, nearly, and before it is there.
//!
//! JSON is dense: `{"":` is five bytes, and a level of the tree that it makes more than six hundred. So a text is looked through
//! before it is parsed, and what is written is charged for the tree that it becomes.

use serde_json::Value;

/// What an allocation takes besides what was asked for.
const ALLOCATION: usize = 16;
/// A map's first entry makes a leaf with room for eleven.
const LEAF: usize = 640;
/// How many entries that leaf has room for.
const IN_LEAF: usize = 11;
/// With more than those there are a second leaf and a node above both,
const SECOND_LEAF: usize = 1400;
/// and then more of them for each entry: leaves are nearly half full at least.
const BEYOND_LEAF: usize = 160;
/// A list's first element makes room for four.
const IN_LIST: usize = 4;

/// What a value takes beside the place that it is in, which its parent has.
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

/// What a string of so many bytes takes.
pub(crate) fn string(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { bytes + ALLOCATION }
}

/// What a list of so many elements takes, since it grows by doubling.
fn elements(count: usize) -> usize {
    match count {
        0 => 0,
        count => count.next_power_of_two().max(IN_LIST) * size_of::<Value>() + ALLOCATION,
    }
}

/// What a map of so many entries takes.
pub(crate) fn entries(count: usize) -> usize {
    match count {
        0 => 0,
        1..=IN_LEAF => LEAF + ALLOCATION,
        count => LEAF + SECOND_LEAF + ALLOCATION + (count - IN_LEAF) * BEYOND_LEAF,
    }
}

/// What a JSON text will be when it is parsed, whether or not it is sound: no less than its sound beginning is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forecast {
    /// How many levels it opens at once.
    pub(crate) depth: usize,
    /// What its value takes.
    pub(crate) cost: usize,
}

impl Forecast {
    /// No text of this length takes more than this: a level that takes one letter makes room for four elements.
    pub(crate) const fn highest_cost(bytes: usize) -> usize {
        bytes.saturating_mul(IN_LIST * size_of::<Value>() + 2 * ALLOCATION)
    }

    /// Looks through a text. It allocates a few bytes for each level, up to `deepest`, where it stops.
    pub(crate) fn of(text: &str, deepest: usize) -> Self {
        let mut forecast = Self { depth: 0, cost: 0 };
        // Each open level, and how many elements or entries it has had.
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

/// Goes to the end of a string, and counts its bytes.
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

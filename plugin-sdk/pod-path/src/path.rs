//! Parses paths: segments, escapes, the meaning of segments on lists, and what was meant by a path with a `/` where `~1` belongs.

use std::borrow::Cow;

use serde_json::Value;

use crate::error::AccessError;
use crate::schema::{ROOT, Schema, Shape};

/// How many segments a path may have, which is also the depth of a pod. Each takes hundreds of bytes in a grant or a kept view.
pub(crate) const SEGMENTS: usize = 64;

/// A path with valid escapes and at most [`SEGMENTS`] segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path<'p> {
    text: &'p str,
    /// Whether it has an escape.
    is_escaped: bool,
}

impl<'p> Path<'p> {
    pub(crate) fn parse(text: &'p str) -> Result<Self, AccessError> {
        if !text.is_empty() && !text.starts_with('/') {
            return Err(AccessError::invalid_path(
                text,
                "it must be empty or start with `/`",
            ));
        }
        if is_too_deep(text) {
            return Err(AccessError::invalid_path(
                text,
                format_args!("it has more than {SEGMENTS} segments"),
            ));
        }
        let is_escaped = text.as_bytes().contains(&b'~');
        let is_sound = |rest: &str| rest.starts_with(['0', '1']);
        if is_escaped && !text.split('~').skip(1).all(is_sound) {
            let reason = "`~` must be written `~0`, and `/` inside a segment `~1`";
            return Err(AccessError::invalid_path(text, reason));
        }
        Ok(Self { text, is_escaped })
    }

    /// The key in a segment of this path, unescaped.
    pub(crate) fn key(self, raw: &'p str) -> Cow<'p, str> {
        if self.is_escaped {
            unescape(raw)
        } else {
            Cow::Borrowed(raw)
        }
    }

    pub(crate) fn text(self) -> &'p str {
        self.text
    }

    /// The segments, still escaped.
    pub(crate) fn segments(self) -> Segments<'p> {
        segments(self.text)
    }
}

/// Whether a path has more than [`SEGMENTS`] segments. Only a text of more bytes than that is scanned.
pub(crate) fn is_too_deep(text: &str) -> bool {
    text.len() > SEGMENTS && text.bytes().filter(|&byte| byte == b'/').count() > SEGMENTS
}

/// The segments of a path that was parsed before, still escaped.
pub(crate) fn segments(text: &str) -> Segments<'_> {
    Segments { rest: text }
}

/// Iterator over the segments of a path, still escaped.
#[derive(Clone, Debug)]
pub(crate) struct Segments<'p> {
    rest: &'p str,
}

impl<'p> Segments<'p> {
    pub(crate) fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    /// The rest of the path.
    pub(crate) fn text(&self) -> &'p str {
        self.rest
    }
}

impl<'p> Iterator for Segments<'p> {
    type Item = &'p str;

    fn next(&mut self) -> Option<&'p str> {
        let rest = self.rest.strip_prefix('/')?;
        let end = rest.bytes().position(|b| b == b'/').unwrap_or(rest.len());
        let (segment, rest) = rest.split_at(end);
        self.rest = rest;
        Some(segment)
    }
}

/// Unescapes a segment, or a part of one.
pub(crate) fn unescape(text: &str) -> Cow<'_, str> {
    if !text.as_bytes().contains(&b'~') {
        return Cow::Borrowed(text);
    }
    let mut parts = text.split('~');
    let mut plain = String::with_capacity(text.len());
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (letter, rest) = match part.strip_prefix('0') {
            Some(rest) => ('~', rest),
            None => ('/', part.get(1..).unwrap_or_default()),
        };
        plain.push(letter);
        plain.push_str(rest);
    }
    Cow::Owned(plain)
}

/// Appends text to a path, escaped.
pub(crate) fn push_escaped(path: &mut String, text: &str) {
    for letter in text.chars() {
        match letter {
            '~' => path.push_str("~0"),
            '/' => path.push_str("~1"),
            letter => path.push(letter),
        }
    }
}

/// Appends the selector `[key=value]` to a path, escaped.
pub(crate) fn push_selector(path: &mut String, key: &str, value: &str) {
    path.push('[');
    push_escaped(path, key);
    path.push('=');
    push_escaped(path, value);
    path.push(']');
}

/// The meaning of a segment on a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListSegment<'p> {
    /// The element at an index.
    Index(usize),
    /// `-`, the end of the list.
    End,
    /// The one element that has this field.
    Selector(Selector<'p>),
}

/// `[key=value]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selector<'p> {
    pub(crate) key: Cow<'p, str>,
    pub(crate) value: Cow<'p, str>,
}

impl Selector<'_> {
    pub(crate) fn into_owned(self) -> Selector<'static> {
        Selector {
            key: Cow::Owned(self.key.into_owned()),
            value: Cow::Owned(self.value.into_owned()),
        }
    }

    /// Whether this selects the element.
    pub(crate) fn matches(&self, element: &Value) -> bool {
        has_field(element, &self.key, &self.value)
    }
}

impl<'p> ListSegment<'p> {
    /// Parses a segment for a list; none if it is not valid on a list.
    pub(crate) fn parse(raw: &'p str) -> Option<Self> {
        if raw == "-" {
            return Some(Self::End);
        }
        if let Some(selector) = raw.strip_prefix('[') {
            // The last `]` must end the segment, so earlier ones belong to the value.
            let (key, value) = selector.strip_suffix(']')?.split_once('=')?;
            if key.is_empty() {
                return None;
            }
            return Some(Self::Selector(Selector {
                key: unescape(key),
                value: unescape(value),
            }));
        }
        let digits = !raw.is_empty() && raw.bytes().all(|b| b.is_ascii_digit());
        if !digits || raw.len() > 1 && raw.starts_with('0') {
            return None;
        }
        // A number that is too large for an index is past the end of every list.
        Some(Self::Index(raw.parse().unwrap_or(usize::MAX)))
    }

    /// Whether a segment only makes sense on a list.
    pub(crate) fn is_meant(raw: &str) -> bool {
        raw == "-" || raw.starts_with('[')
    }
}

/// Whether an element's field has this value as text: a string itself, a number or boolean as in JSON.
pub(crate) fn has_field(element: &Value, key: &str, text: &str) -> bool {
    element.get(key).is_some_and(|value| has_text(value, text))
}

/// Whether a scalar has this text.
pub(crate) fn has_text(value: &Value, text: &str) -> bool {
    match value {
        Value::String(string) => string == text,
        Value::Bool(true) => text == "true",
        Value::Bool(false) => text == "false",
        // The first character is checked before, since formatting the number allocates.
        Value::Number(number) => {
            text.starts_with(|c: char| c.is_ascii_digit() || c == '-') && number.to_string() == text
        }
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

/// The path with `~1`, if some of its slashes can only be meant so: below an entry of a map of scalars, such as a label, there is
/// nothing, and a selector ends with `]`.
pub(crate) fn meant(path: &str) -> Option<String> {
    let mut schema = ROOT;
    let mut meant = String::with_capacity(path.len() + 8);
    let mut rest = segments(path);
    while let Some(raw) = rest.next() {
        meant.push('/');
        meant.push_str(raw);
        match (schema, schema.shape()) {
            (Schema::Map(values, _), _) if values.shape() == Shape::Scalar => {
                for raw in rest {
                    meant.extend(["~1", raw]);
                }
                break;
            }
            (_, Shape::List | Shape::Unknown) if raw.starts_with('[') => {
                while !meant.ends_with(']') {
                    meant.extend(["~1", rest.next()?]);
                }
                schema = schema.element();
            }
            (_, Shape::List) => schema = schema.element(),
            (_, Shape::Object | Shape::Unknown) => schema = schema.field(&unescape(raw)),
            (_, Shape::Scalar) => return None,
        }
    }
    (meant != path).then_some(meant)
}

/// The end of a message about a path: what was probably meant, if a slash is wrong.
pub(crate) fn advice(path: &str) -> String {
    meant(path).map_or_else(String::new, |meant| {
        format!("; a `/` in a key or value is written `~1`: write {meant}")
    })
}

#[cfg(test)]
mod tests;

//! Kubernetes JSON that stays as it was written.

use std::fmt;

pub(crate) use podloom_plugin_sdk::json::quote;
use podloom_plugin_sdk::json::{self, Raw};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// A JSON object whose values are text, in the order in which they were written. Fields that nobody here knows survive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Object(Vec<(String, Box<str>)>);

impl Object {
    /// Parses a text; `None` if it is no object.
    #[inline(never)]
    pub(crate) fn parse(text: &str) -> Option<Self> {
        json::from_str(text).ok()
    }

    /// The text of a field.
    #[inline(never)]
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, _)| known == key)
            .map(|(_, text)| &**text)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The object in a field; empty if there is none.
    #[inline(never)]
    pub(crate) fn object(&self, key: &str) -> Self {
        self.get(key).and_then(Self::parse).unwrap_or_default()
    }

    /// The objects in a field that holds a list; empty if there is none.
    #[inline(never)]
    pub(crate) fn objects(&self, key: &str) -> Vec<Self> {
        self.get(key).map(objects).unwrap_or_default()
    }

    /// The string in a field; empty if there is none. See [`inner`].
    #[inline(never)]
    pub(crate) fn string(&self, key: &str) -> &str {
        self.get(key).and_then(inner).unwrap_or_default()
    }

    #[inline(never)]
    pub(crate) fn set(&mut self, key: &str, text: &str) {
        match self.0.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => *old = text.into(),
            None => self.0.push((key.to_owned(), text.into())),
        }
    }

    /// Adds a field that is not there yet.
    #[inline(never)]
    pub(crate) fn push(&mut self, key: String, value: Raw) {
        self.0.push((key, value.into_text()));
    }

    /// Sets a field that is missing.
    #[inline(never)]
    pub(crate) fn fill(&mut self, key: &str, text: &str) {
        if !self.has(key) {
            self.set(key, text);
        }
    }

    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, text)| (key.as_str(), &**text))
    }

    #[inline(never)]
    pub(crate) fn text(&self) -> String {
        // Quotes, colon and comma around each; a text that grew beside others would be copied each time.
        let length = self
            .fields()
            .map(|(key, value)| key.len() + value.len() + 4);
        let mut text = String::with_capacity(length.sum::<usize>() + 2);
        text.push('{');
        for (key, value) in self.fields() {
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(&quote(key));
            text.push(':');
            text.push_str(value);
        }
        text.push('}');
        text
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut fields = Vec::new();
                while let Some(key) = map.next_key::<String>()? {
                    fields.push((key, map.next_value::<Raw>()?.into_text()));
                }
                Ok(Object(fields))
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

/// The objects of a list's text; empty if it is something else.
pub(crate) fn objects(text: &str) -> Vec<Object> {
    json::from_str(text).unwrap_or_default()
}

/// The strings of a list's text; `None` if it is something else.
#[inline(never)]
pub(crate) fn strings(text: &str) -> Option<Vec<String>> {
    json::from_str(text).ok()
}

/// The string of a JSON text; `None` if it is something else.
///
/// Escapes stay as they are written: what is looked at has none, since it names things in Kubernetes. Two texts that were written
/// by the host are equal if the strings are.
#[inline(never)]
pub(crate) fn inner(text: &str) -> Option<&str> {
    text.strip_prefix('"')?.strip_suffix('"')
}

/// The text of a list of objects.
#[inline(never)]
pub(crate) fn list(objects: &[Object]) -> String {
    let mut text = String::from("[");
    for object in objects {
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(&object.text());
    }
    text.push(']');
    text
}

/// Whether two texts mean the same: the order of an object's fields does not matter.
#[inline(never)]
pub(crate) fn equal(left: &str, right: &str) -> bool {
    if left == right {
        return true;
    }
    match (left.as_bytes().first(), right.as_bytes().first()) {
        (Some(b'{'), Some(b'{')) => match (Object::parse(left), Object::parse(right)) {
            (Some(left), Some(right)) => {
                left.0.len() == right.0.len()
                    && left
                        .fields()
                        .all(|(key, value)| right.get(key).is_some_and(|other| equal(value, other)))
            }
            _ => false,
        },
        (Some(b'['), Some(b'[')) => {
            let (left, right) = (
                elements(left).unwrap_or_default(),
                elements(right).unwrap_or_default(),
            );
            left.len() == right.len()
                && left
                    .iter()
                    .zip(&right)
                    .all(|(left, right)| equal(left.text(), right.text()))
        }
        _ => false,
    }
}

/// The elements of a list's text; `None` if it is something else.
#[inline(never)]
pub(crate) fn elements(text: &str) -> Option<Vec<Raw>> {
    json::from_str(text).ok()
}

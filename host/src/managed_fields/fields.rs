//! A set of fields in the format FieldsV1: a tree whose keys are `f:<field>`, `k:<keys of a list's element>`, `v:<value of a list's
//! element>`, `i:<index>`, and `.` for the value itself.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// How deep a tree is read; deeper than any path.
const DEPTH: usize = 64;

/// The fields of one manager at one place of an object.
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// Whether the value here is owned itself, without what is in it.
    owns_itself: bool,
    fields: BTreeMap<String, Self>,
    elements: Vec<(Element, Self)>,
}

/// Which element of a list is meant.
#[derive(Debug)]
enum Element {
    /// The one with these values of the list's keys.
    Keys(Map<String, Value>),
    /// The one that equals this value.
    Equal(Value),
    Index(usize),
}

/// A segment of a path.
enum Segment<'p> {
    Key(String),
    /// `[key=value]`
    Selector {
        key: String,
        value: String,
    },
    Index(&'p str),
}

impl Fields {
    /// Reads a tree, until no room is left.
    pub(super) fn read(tree: &Value, room: &mut usize) -> Self {
        Self::read_at(tree, room, DEPTH)
    }

    fn read_at(tree: &Value, room: &mut usize, depth: usize) -> Self {
        let mut read = Self::default();
        let (Some(tree), Some(depth)) = (tree.as_object(), depth.checked_sub(1)) else {
            return read;
        };
        for (key, child) in tree {
            let Some(left) = room.checked_sub(1) else {
                return read;
            };
            *room = left;
            let json = |text: &str| serde_json::from_str::<Value>(text).ok();
            let element = match key.split_once(':') {
                None if key == "." => {
                    read.owns_itself = true;
                    continue;
                }
                Some(("f", field)) => {
                    let child = Self::read_at(child, room, depth);
                    read.fields.insert(field.to_owned(), child);
                    continue;
                }
                Some(("k", keys)) => match json(keys) {
                    Some(Value::Object(keys)) if !keys.is_empty() => Element::Keys(keys),
                    _ => continue,
                },
                Some(("v", value)) => match json(value) {
                    Some(value) => Element::Equal(value),
                    None => continue,
                },
                Some(("i", index)) => match index.parse() {
                    Ok(index) => Element::Index(index),
                    Err(_) => continue,
                },
                _ => continue,
            };
            let child = Self::read_at(child, room, depth);
            read.elements.push((element, child));
        }
        read
    }

    /// How many segments of a path lead to the value that is owned: all, if that is the path's own value, or fewer, if an object or
    /// list around it is owned as a whole. None if it is not owned.
    pub(super) fn owned_at(&self, path: &str, object: &Value) -> Option<usize> {
        let mut here = (self, Some(object));
        let mut count = 0;
        for raw in path.split('/').skip(1) {
            // Nothing in it is owned by itself, so the whole is one value.
            if count > 0 && here.0.is_leaf() {
                return Some(count);
            }
            here = here.0.step(raw, here.1)?;
            count += 1;
        }
        let (fields, _) = here;
        (count > 0 && (fields.owns_itself || fields.is_leaf())).then_some(count)
    }

    /// Whether the value at a path is owned, or anything in it.
    pub(super) fn owns_within(&self, path: &str, object: &Value) -> bool {
        let mut here = Some((self, Some(object)));
        for raw in path.split('/').skip(1) {
            here = here.and_then(|(fields, value)| fields.step(raw, value));
        }
        here.is_some()
    }

    /// Whether these are fields that nobody can give to an object that exists: the containers of a pod, and the selector of what makes
    /// pods.
    pub(super) fn are_of_the_maker(&self) -> bool {
        let Some(spec) = self.fields.get("spec") else {
            return false;
        };
        let elements = |list: &Self| list.elements.iter().any(|(_, it)| it.owns_itself);
        let has_containers = spec.fields.get("containers").is_some_and(elements);
        has_containers || spec.fields.contains_key("selector")
    }

    fn is_leaf(&self) -> bool {
        self.fields.is_empty() && self.elements.is_empty()
    }

    /// What is owned at a segment, and the value there.
    fn step<'o>(&self, raw: &str, value: Option<&'o Value>) -> Option<(&Self, Option<&'o Value>)> {
        let segment = Segment::parse(raw, value);
        let value = value.and_then(|value| segment.of(value));
        let fields = match &segment {
            Segment::Key(key) => self.fields.get(key)?,
            _ => {
                let mut elements = self.elements.iter();
                &elements.find(|(it, _)| it.is_at(&segment, value))?.1
            }
        };
        Some((fields, value))
    }
}

impl Element {
    /// Whether this is the element at a segment, which has this value. An element that is gone is found by its merge key alone.
    fn is_at(&self, segment: &Segment<'_>, value: Option<&Value>) -> bool {
        match (self, value) {
            (Self::Keys(keys), Some(element)) => {
                let mut known = keys.iter().filter_map(|(key, expected)| {
                    let found = element.get(key)?;
                    Some(found == expected)
                });
                known.next() == Some(true) && known.all(|is_equal| is_equal)
            }
            (Self::Keys(keys), None) => match segment {
                Segment::Selector { key, value } => {
                    keys.get(key).is_some_and(|found| text(found) == *value)
                }
                _ => false,
            },
            (Self::Equal(expected), value) => value == Some(expected),
            (Self::Index(expected), _) => {
                matches!(segment, Segment::Index(index) if index.parse() == Ok(*expected))
            }
        }
    }
}

impl<'p> Segment<'p> {
    fn parse(raw: &'p str, value: Option<&Value>) -> Self {
        let selector = raw.strip_prefix('[').and_then(|raw| raw.strip_suffix(']'));
        // A key of a map may look like a selector or an index.
        if value.is_some_and(Value::is_object) {
            return Self::Key(unescape(raw));
        }
        if let Some((key, value)) = selector.and_then(|selector| selector.split_once('=')) {
            return Self::Selector {
                key: unescape(key),
                value: unescape(value),
            };
        }
        match value.is_some_and(Value::is_array) {
            true => Self::Index(raw),
            false => Self::Key(unescape(raw)),
        }
    }

    /// The value here.
    fn of<'o>(&self, value: &'o Value) -> Option<&'o Value> {
        match self {
            Self::Key(key) => value.get(key),
            Self::Index(index) => value.get(index.parse::<usize>().ok()?),
            Self::Selector { .. } => {
                let mut elements = value.as_array()?.iter();
                elements.find(|element| self.names(element) == Some(true))
            }
        }
    }

    /// Whether it names an element by a field; none if it does not name elements by fields.
    fn names(&self, element: &Value) -> Option<bool> {
        let Self::Selector { key, value } = self else {
            return None;
        };
        let found = element.get(key);
        Some(found.is_some_and(|found| text(found) == *value))
    }
}

/// A scalar as a selector writes it.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn unescape(text: &str) -> String {
    text.replace("~1", "/").replace("~0", "~")
}

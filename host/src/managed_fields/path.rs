//! A path on an object: what its segments mean, and which values are there.

use std::borrow::Cow;
use std::cell::Cell;

use serde_json::Value;

/// How much may still be looked at. Who writes an object decides how long its lists and managedFields are, and how many paths a stamp
/// has; together they must not take long.
pub(super) struct Work(Cell<u64>);

/// A path, resolved on an object.
pub(super) struct Path<'p, 'o>(pub(super) Vec<Step<'p, 'o>>);

/// A segment of a path, and the value there.
pub(super) struct Step<'p, 'o> {
    pub(super) segment: Segment<'p>,
    pub(super) value: Option<&'o Value>,
}

/// A segment of a path.
pub(super) enum Segment<'p> {
    Key(Cow<'p, str>),
    /// `[key=value]`
    Selector {
        key: Cow<'p, str>,
        value: Cow<'p, str>,
    },
    Index(&'p str),
}

impl Work {
    pub(super) const fn new(limit: u64) -> Self {
        Self(Cell::new(limit))
    }

    /// Takes some of it; false if that much is not left, and then nothing is.
    pub(super) fn spend(&self, number: usize) -> bool {
        let number = u64::try_from(number).unwrap_or(u64::MAX);
        let left = self.0.get().checked_sub(number);
        self.0.set(left.unwrap_or_default());
        left.is_some()
    }

    pub(super) fn is_spent(&self) -> bool {
        self.0.get() == 0
    }
}

impl<'p, 'o> Path<'p, 'o> {
    pub(super) fn on(object: &'o Value, path: &'p str, work: &Work) -> Self {
        let mut value = Some(object);
        let steps = path.split('/').skip(1).map(|raw| {
            let segment = Segment::parse(raw, value);
            value = value.and_then(|value| segment.of(value, work));
            Step { segment, value }
        });
        Self(steps.collect())
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
    fn of<'o>(&self, value: &'o Value, work: &Work) -> Option<&'o Value> {
        match self {
            Self::Key(key) => value.get(key.as_ref()),
            Self::Index(index) => value.get(index.parse::<usize>().ok()?),
            Self::Selector { key, value: wanted } => {
                let elements = value.as_array()?.iter();
                let mut elements = elements.take_while(|_| work.spend(1));
                elements.find(|element| {
                    let found = element.get(key.as_ref());
                    found.is_some_and(|found| is_text(found, wanted))
                })
            }
        }
    }
}

/// Whether a scalar is what a selector writes.
pub(super) fn is_text(value: &Value, text: &str) -> bool {
    match value {
        Value::String(found) => found == text,
        Value::Number(found) => found.to_string() == text,
        Value::Bool(found) => text == if *found { "true" } else { "false" },
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

fn unescape(text: &str) -> Cow<'_, str> {
    match text.contains('~') {
        true => Cow::Owned(text.replace("~1", "/").replace("~0", "~")),
        false => Cow::Borrowed(text),
    }
}

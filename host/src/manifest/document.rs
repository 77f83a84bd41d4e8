//! One Kubernetes object of a file.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::Value;

use super::field::{self, Step};
use super::source::Source;
use crate::refusal::{Place, Refusal};

/// One Kubernetes object, and where each of its fields is written.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    /// The object.
    pub(crate) value: Value,
    /// Its `apiVersion`.
    pub(crate) api_version: String,
    /// Its `kind`.
    pub(crate) kind: String,
    /// Which document of its file; those of a List share one.
    pub(super) number: usize,
    pub(super) source: Source,
    pub(super) mark: Mark,
}

/// Where a value is written; the tree has the shape of the value.
#[derive(Clone, Debug, Default)]
pub(super) struct Mark {
    pub(super) value: Spot,
    /// The key that leads to the value, in a map.
    pub(super) key: Option<Spot>,
    pub(super) inside: Inside,
}

/// The marks inside a value.
#[derive(Clone, Debug, Default)]
pub(super) enum Inside {
    #[default]
    Scalar,
    List(Vec<Mark>),
    Map(BTreeMap<String, Mark>),
}

/// A line, a column and, for scalars, the bytes of the source.
#[derive(Clone, Debug, Default)]
pub(super) struct Spot {
    pub(super) line: u64,
    pub(super) column: u64,
    pub(super) bytes: Range<usize>,
}

impl Mark {
    fn child(&self, step: &Step) -> Option<&Self> {
        match (&self.inside, step) {
            (Inside::List(items), Step::Index(index)) => items.get(*index),
            (Inside::Map(fields), Step::Key(key)) => fields.get(key),
            _ => None,
        }
    }
}

impl Document {
    /// What `metadata.name` says; empty if it says nothing.
    pub(crate) fn name(&self) -> &str {
        self.metadata("name")
    }

    /// The namespace the API server would put the object into.
    pub(crate) fn namespace<'a>(&'a self, default: &'a str) -> &'a str {
        match self.metadata("namespace") {
            "" => default,
            namespace => namespace,
        }
    }

    fn metadata(&self, field: &str) -> &str {
        self.value
            .get("metadata")
            .and_then(|metadata| metadata.get(field))
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// The object as messages name it: `Browser shop/chrome`.
    pub(crate) fn title(&self) -> String {
        let name = match (self.name(), self.metadata("generateName")) {
            ("", "") => "without a name".to_owned(),
            ("", prefix) => format!("{prefix}*"),
            (name, _) => name.to_owned(),
        };
        match self.metadata("namespace") {
            "" => format!("{} {name}", self.kind),
            namespace => format!("{} {namespace}/{name}", self.kind),
        }
    }

    /// A refusal of one field; without steps, of the object.
    pub(crate) fn refuse(&self, path: &[Step], message: impl Into<String>) -> Refusal {
        let field = field::name(path);
        Refusal {
            place: Some(self.place(path)),
            object: Some(self.title()),
            field: (!field.is_empty()).then_some(field),
            message: message.into(),
        }
    }

    /// The same, but pointing at the key that leads to the field, as for a field that should not be there.
    pub(super) fn refuse_key(&self, path: &[Step], message: impl Into<String>) -> Refusal {
        let mut refusal = self.refuse(path, message);
        if let (Some(place), Some(key)) = (&mut refusal.place, &self.deepest(path).key) {
            place.line = key.line;
            place.column = key.column;
        }
        refusal
    }

    /// Where a field is written, or the nearest field around it that is.
    pub(crate) fn place(&self, path: &[Step]) -> Place {
        let spot = &self.deepest(path).value;
        Place {
            file: self.source.name.clone(),
            document: self.number,
            line: spot.line,
            column: spot.column,
        }
    }

    /// A scalar as it is written, without what YAML made of it.
    pub(super) fn written(&self, path: &[Step]) -> Option<&str> {
        let bytes = self.deepest(path).value.bytes.clone();
        self.source.text.get(bytes).filter(|text| !text.is_empty())
    }

    fn deepest(&self, path: &[Step]) -> &Mark {
        let mut mark = &self.mark;
        for step in path {
            match mark.child(step) {
                Some(child) => mark = child,
                None => break,
            }
        }
        mark
    }

    /// The steps of an RFC 6901 pointer into this object: a number is an index only on a list.
    pub(crate) fn steps(&self, pointer: &str) -> Vec<Step> {
        let mut value = Some(&self.value);
        let mut steps = Vec::new();
        for segment in pointer.split('/').skip(1) {
            let list = value.and_then(Value::as_array);
            let (step, next) = match segment.parse() {
                Ok(index) if list.is_some() => {
                    (Step::Index(index), list.and_then(|list| list.get(index)))
                }
                _ => {
                    let key = segment.replace("~1", "/").replace("~0", "~");
                    let next = value.and_then(|value| value.get(&key));
                    (Step::Key(key), next)
                }
            };
            steps.push(step);
            value = next;
        }
        steps
    }
}

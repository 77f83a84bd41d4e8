//! One Kubernetes object of a file, with the positions of its fields.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

use serde_json::{Map, Value};

use super::slices::Written;
use super::source::Source;
use crate::error::{Diagnostic, Position, quoted};

/// One Kubernetes object, and where each of its fields is written.
#[derive(Clone, Debug)]
pub struct Document {
    /// The object.
    pub value: Value,
    /// Its `apiVersion`.
    pub api_version: String,
    /// Its `kind`.
    pub kind: String,
    /// The number of the document in its file; the items of a List share one.
    pub(super) number: usize,
    pub(super) source: Source,
    pub(super) spans: SpanTree,
    /// Where its text is; none for the items of a List.
    pub(super) written: Option<Written>,
    /// Where the user says that objects of this kind have pod templates; none if the user says nothing.
    pub(super) named: Option<Vec<String>>,
}

/// Where a value is written: a tree with the shape of the value.
#[derive(Clone, Debug, Default)]
pub(super) struct SpanTree {
    pub(super) value: Span,
    /// The key of the value, if it is in a map.
    pub(super) key: Option<Span>,
    /// Those of the values inside it.
    pub(super) children: BTreeMap<Step, Self>,
}

/// The start of a value and, for scalars, its bytes in the source.
#[derive(Clone, Debug, Default)]
pub(super) struct Span {
    pub(super) line: u64,
    pub(super) column: u64,
    pub(super) bytes: Range<usize>,
}

impl Document {
    /// The field `metadata.name`; empty if it is missing.
    pub fn name(&self) -> &str {
        self.metadata("name")
    }

    /// The namespace the API server would put the object into.
    pub fn namespace<'a>(&'a self, default: &'a str) -> &'a str {
        match self.metadata("namespace") {
            "" => default,
            namespace => namespace,
        }
    }

    fn metadata(&self, field: &str) -> &str {
        metadata(&self.value, field)
    }

    /// The object as messages name it: `Browser shop/chrome`.
    pub fn title(&self) -> String {
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

    /// A message about one field; with an empty path, about the object.
    pub fn diagnostic(&self, path: &[Step], message: impl Into<String>) -> Diagnostic {
        let field = name(path);
        Diagnostic {
            object: Some(self.title()),
            field: (!field.is_empty()).then_some(field),
            ..Diagnostic::at(self.position(path), message)
        }
    }

    /// Like [`diagnostic`](Self::diagnostic), but at the position of the key: for fields that should not be there.
    pub(super) fn diagnostic_at_key(
        &self,
        path: &[Step],
        message: impl Into<String>,
    ) -> Diagnostic {
        let mut diagnostic = self.diagnostic(path, message);
        if let (Some(position), Some(key)) = (&mut diagnostic.position, &self.deepest(path).key) {
            position.line = key.line;
            position.column = key.column;
        }
        diagnostic
    }

    /// Where a field is written. For a missing field, where the nearest field around it is.
    pub fn position(&self, path: &[Step]) -> Position {
        let span = &self.deepest(path).value;
        Position {
            file: self.source.name.clone(),
            document: self.number,
            line: span.line,
            column: span.column,
        }
    }

    /// The source text of a scalar.
    pub(super) fn written(&self, path: &[Step]) -> Option<&str> {
        let bytes = self.deepest(path).value.bytes.clone();
        self.source.text.get(bytes).filter(|text| !text.is_empty())
    }

    fn deepest(&self, path: &[Step]) -> &SpanTree {
        let mut spans = &self.spans;
        for step in path {
            match spans.children.get(step) {
                Some(child) => spans = child,
                None => break,
            }
        }
        spans
    }
}

// Names of fields, as in Kubernetes' own messages: `spec.browsers.chrome["120.0"].env[0].name`.

/// One step from a value to a value inside it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// A key of a map.
    Key(String),
    /// An index in a list, from 0.
    Index(usize),
}

impl From<&str> for Step {
    fn from(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

/// The value at a path.
pub fn get<'a>(value: &'a Value, path: &[Step]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get(key),
        Step::Index(index) => value.get(index),
    })
}

/// The value at a path, to change it.
pub fn get_mut<'a>(value: &'a mut Value, path: &[Step]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get_mut(key),
        Step::Index(index) => value.get_mut(index),
    })
}

/// The path that a JSON Pointer (RFC 6901) means in a value. A number is an index only in a list.
pub fn steps(value: &Value, pointer: &str) -> Vec<Step> {
    let mut path = Vec::new();
    for segment in pointer.split('/').skip(1) {
        let index = match get(value, &path) {
            Some(Value::Array(_)) => segment.parse().ok(),
            _ => None,
        };
        path.push(index.map_or_else(|| Step::Key(unescape(segment)), Step::Index));
    }
    path
}

/// The paths of an object that a pointer names. A path whose end is missing or null is not among them.
pub(super) fn expand(value: &Value, pointer: &str) -> Vec<Vec<Step>> {
    let mut paths = vec![Vec::new()];
    for segment in pointer.split('/').skip(1) {
        let mut longer = Vec::new();
        for path in paths {
            let step = |step: Step| [path.as_slice(), &[step]].concat();
            match get(value, &path) {
                Some(Value::Array(items)) if segment == "*" => {
                    longer.extend((0..items.len()).map(|index| step(Step::Index(index))));
                }
                Some(Value::Array(_)) => {
                    longer.extend(segment.parse().map(|index| step(Step::Index(index))));
                }
                _ => {
                    longer.push(step(Step::Key(unescape(segment))));
                }
            }
        }
        paths = longer;
    }
    paths.retain(|path| get(value, path).is_some_and(|value| !value.is_null()));
    paths
}

/// A key as a segment of a JSON pointer.
pub fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn unescape(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

/// The path as text; empty for the document itself.
pub fn name(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Index(index) => {
                let _infallible = write!(text, "[{index}]");
            }
            Step::Key(key) if is_plain(key) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(key);
            }
            Step::Key(key) => {
                let _infallible = write!(text, "[{}]", quoted(key));
            }
        }
    }
    text
}

fn is_plain(key: &str) -> bool {
    !key.is_empty()
        && key.bytes().all(|byte| {
            byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' || byte == b'$'
        })
}

// What every object has.

/// A field of the metadata; empty if there is none.
pub fn metadata<'o>(object: &'o Value, field: &str) -> &'o str {
    let metadata = object.get("metadata");
    let text = metadata.and_then(|it| it.get(field)?.as_str());
    text.unwrap_or_default()
}

/// What an object says of its controller.
pub fn controller(object: &Value) -> Option<&Map<String, Value>> {
    let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
    let mut owners = owners.iter().filter_map(Value::as_object);
    owners.find(|owner| owner.get("controller") == Some(&true.into()))
}

#[cfg(test)]
mod tests;

//! Names of fields, as in Kubernetes' own messages: `spec.browsers.chrome["120.0"].env[0].name`.

use std::fmt::Write;

use serde_json::Value;

use crate::error::quoted;

/// One step from a value to a value inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String),
    Index(usize),
}

impl From<&str> for Step {
    fn from(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

/// The value at a path.
pub(crate) fn get<'a>(value: &'a Value, path: &[Step]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get(key),
        Step::Index(index) => value.get(index),
    })
}

/// The value at a path, to change it.
pub(crate) fn get_mut<'a>(value: &'a mut Value, path: &[Step]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get_mut(key),
        Step::Index(index) => value.get_mut(index),
    })
}

/// The path that a JSON Pointer means in a value.
pub(crate) fn steps(value: &Value, pointer: &str) -> Vec<Step> {
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
pub(super) fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn unescape(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

/// The path as text; empty for the document itself.
pub(crate) fn name(path: &[Step]) -> String {
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

#[cfg(test)]
mod tests;

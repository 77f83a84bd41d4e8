//! A pod as lines of YAML, each with the path of its value.

#[cfg(test)]
mod tests;

use podloom_pod_path::element_segments;
use serde_json::{Map, Value, json};

use crate::output;
use crate::stamp;

/// The entries of YAML are indented by this much.
const STEP: usize = 2;

/// A line of a pod.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Line {
    pub(super) text: String,
    /// Of its value, with elements of lists named as in the stamp.
    pub(super) path: String,
    /// Whether it only begins an object or a list, which is on the next lines.
    pub(super) is_head: bool,
}

/// The lines of a pod, without managedFields and the stamp, which say who wrote the others.
pub(super) fn of(pod: &Value) -> anyhow::Result<Vec<Line>> {
    let mut pod = pod.clone();
    remove_records(&mut pod);
    let mut writer = Writer { lines: Vec::new() };
    if let Value::Object(fields) = &pod {
        writer.fields(fields, "", 0)?;
    }
    Ok(writer.lines)
}

fn remove_records(pod: &mut Value) {
    let had_stamp = stamp::remove(pod);
    let Some(metadata) = pod.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    metadata.remove("managedFields");
    let annotations = metadata.get("annotations").and_then(Value::as_object);
    if had_stamp && annotations.is_some_and(Map::is_empty) {
        metadata.remove("annotations");
    }
}

struct Writer {
    lines: Vec<Line>,
}

impl Writer {
    fn fields(
        &mut self,
        fields: &Map<String, Value>,
        path: &str,
        indent: usize,
    ) -> anyhow::Result<()> {
        for (key, value) in fields {
            let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
            match value {
                Value::Object(inner) if !inner.is_empty() => {
                    self.head(key, &path, indent)?;
                    self.fields(inner, &path, indent + STEP)?;
                }
                Value::Array(elements) if !elements.is_empty() => {
                    self.head(key, &path, indent)?;
                    self.elements(elements, &path, indent)?;
                }
                scalar => self.scalar(&json!({ key.as_str(): scalar }), &path, indent)?,
            }
        }
        Ok(())
    }

    fn elements(&mut self, elements: &[Value], path: &str, indent: usize) -> anyhow::Result<()> {
        for (segment, element) in element_segments(path, elements).iter().zip(elements) {
            let path = format!("{path}/{segment}");
            let first = self.lines.len();
            match element {
                Value::Object(inner) if !inner.is_empty() => {
                    self.fields(inner, &path, indent + STEP)?;
                }
                Value::Array(inner) if !inner.is_empty() => {
                    self.elements(inner, &path, indent + STEP)?;
                }
                scalar => {
                    self.scalar(&json!([scalar]), &path, indent)?;
                    continue;
                }
            }
            // The dash stands where the first line of the element is indented.
            if let Some(line) = self.lines.get_mut(first) {
                line.text.replace_range(indent..=indent, "-");
            }
        }
        Ok(())
    }

    fn head(&mut self, key: &str, path: &str, indent: usize) -> anyhow::Result<()> {
        let text = output::yaml(&json!({ key: null }))?;
        let text = text.trim_end().trim_end_matches("null").trim_end();
        self.push(text, path, indent, true);
        Ok(())
    }

    /// Writes an object or a list with one scalar, or with an empty object or list.
    fn scalar(&mut self, value: &Value, path: &str, indent: usize) -> anyhow::Result<()> {
        for text in output::yaml(value)?.lines() {
            self.push(text, path, indent, false);
        }
        Ok(())
    }

    fn push(&mut self, text: &str, path: &str, indent: usize, is_head: bool) {
        let indent = if text.is_empty() { 0 } else { indent };
        self.lines.push(Line {
            text: format!("{:indent$}{text}", ""),
            path: path.to_owned(),
            is_head,
        });
    }
}

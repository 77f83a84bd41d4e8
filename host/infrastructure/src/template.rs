//! TOSCA templates: what is sent to an Infrastructure Manager (IM), and what of a change can be.
//!
//! IM merges a new template over the one that it has: objects key by key, lists by index, and null is nothing. So what is missing in the
//! new one stays, and the answer is the same as if it had gone. [`compare`] says which changes IM takes, and how machines are removed:
//! by a number of zero. Everything here is pure.

mod change;
mod files;
mod machines;
mod name;
mod nodes;
mod path;
mod text;

use std::fmt;

use serde_json::{Map, Value};

pub(crate) use self::change::{Comparison, compare};
pub(crate) use self::machines::machines;
pub(crate) use self::name::is_named;

use self::path::Path;
use podloom_engine::finding::FieldPath;

/// The largest template in its canonical form, in bytes.
pub(crate) const TEMPLATE_BYTES_MAX: usize = 256 * 1024;
/// How deep objects and lists may be in each other. IM's parser ends with an error of its own somewhat deeper.
const DEPTH_MAX: usize = 64;
/// How deep this code goes into a value that nobody has checked: as deep as a parser of JSON does.
const DEPTH_LOOKED_AT: usize = 128;

/// How many problems are named; the next ones show when these are mended. A template can have a hundred thousand, each behind a long path.
pub(crate) const PROBLEMS_MAX: usize = 12;

/// The key of what is said about the template.
const METADATA: &str = "metadata";
/// The key in it of the name that we give an infrastructure.
const INFRA_NAME: &str = "infra_name";

/// What is wrong with a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Where in the template.
    path: FieldPath,
    /// What, as a sentence.
    pub(crate) message: String,
}

impl Problem {
    /// Returns where it is in an object that has the template at this field.
    pub(crate) fn below(&self, field: &str) -> FieldPath {
        let mut path = FieldPath::dotted(field);
        path.0.extend_from_slice(&self.path.0);
        path
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", path::dotted(&self.path), self.message)
    }
}

/// Returns the form that is compared, sent and stored: without the members of objects that are null.
pub(crate) fn canonical(template: &Value) -> Value {
    canonical_to(template, DEPTH_LOOKED_AT)
}

fn canonical_to(value: &Value, depth: usize) -> Value {
    let Some(below) = depth.checked_sub(1) else {
        return value.clone();
    };
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.clone(), canonical_to(value, below)))
            .collect(),
        Value::Array(items) => items.iter().map(|item| canonical_to(item, below)).collect(),
        other => other.clone(),
    }
}

/// Returns how many bytes a template has as JSON.
pub(crate) fn size_of(template: &Value) -> usize {
    template.to_string().len()
}

/// Checks what the schema cannot say. Unless `allow_file_references`, IM must not be told to read files: they would be its own.
///
/// # Errors
///
/// Returns all that is wrong.
pub(crate) fn check(template: &Value, allow_file_references: bool) -> Result<(), Vec<Problem>> {
    let mut problems = Vec::new();
    let metadata = template.get(METADATA);
    if metadata.is_some_and(|metadata| !metadata.is_object()) {
        let root = Path::default();
        problems.push(root.key(METADATA).problem("it must be an object"));
    }
    too_deep(template, &Path::default(), &mut problems);
    problems.extend(files::tokens(template));
    if !allow_file_references {
        problems.extend(files::references(template));
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems),
    }
}

/// Finds objects and lists that are too deep in others.
fn too_deep(value: &Value, path: &Path<'_>, problems: &mut Vec<Problem>) {
    let is_nested = value.is_object() || value.is_array();
    if is_nested && path.depth() >= DEPTH_MAX {
        problems.push(path.problem("objects and lists may be 64 levels deep in each other"));
        return;
    }
    if problems.len() >= PROBLEMS_MAX {
        return;
    }
    for (inner, path) in path.inside(value) {
        too_deep(inner, &path, problems);
    }
}

/// Returns what is sent: the template with the name of the infrastructure, in JSON that a parser of YAML reads in the same way.
pub(crate) fn to_send(template: &Value, infra_name: &str) -> String {
    text::of(&named(template, infra_name))
}

/// Returns the template with the name of the infrastructure.
pub(crate) fn named(template: &Value, infra_name: &str) -> Value {
    let mut sent = template.clone();
    if let Value::Object(fields) = &mut sent {
        let metadata = fields
            .entry(METADATA)
            .or_insert_with(|| Value::Object(Map::new()));
        if !metadata.is_object() {
            *metadata = Value::Object(Map::new());
        }
        if let Value::Object(metadata) = metadata {
            metadata.insert(INFRA_NAME.to_owned(), infra_name.into());
        }
    }
    sent
}

#[cfg(test)]
mod tests;

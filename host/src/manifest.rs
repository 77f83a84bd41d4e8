//! Reads and checks the user's manifests: Kubernetes objects in YAML or JSON, with the position of every field.

mod check;
mod document;
mod embedded;
mod field;
mod findings;
mod kinds;
mod node;
mod numbering;
mod parse;
mod source;
mod suggest;

pub(crate) use check::check;
pub(crate) use document::Document;
pub(crate) use field::Step;
pub(crate) use kinds::{DocumentKind, Template, kind};
pub(crate) use source::Depth;

use serde_json::Value;

use crate::error::{CommandError, Diagnostic};

/// Reads all objects of the files, directories and `-` that `-f` names, in their order.
///
/// # Errors
///
/// Everything that cannot be read as an object, in all files at once.
pub(crate) fn read(files: &[String], depth: Depth) -> Result<Vec<Document>, CommandError> {
    let mut documents = Vec::new();
    let mut errors = Vec::new();
    for source in source::read_all(files, depth)? {
        match parse::parse(&source) {
            Ok(found) => documents.extend(found),
            Err(mut found) => errors.append(&mut found),
        }
    }
    if !errors.is_empty() {
        return Err(CommandError::Invalid(errors));
    }
    if documents.is_empty() {
        return Err(CommandError::Invalid(vec![Diagnostic::new(format!(
            "no objects in {}: every document is empty",
            files.join(", ")
        ))]));
    }
    Ok(documents)
}

/// Reads the documents of one file as plain values, whether they are Kubernetes objects or not.
///
/// # Errors
///
/// Everything that is not valid YAML.
pub(crate) fn read_values(file: &str, depth: Depth) -> Result<Vec<Value>, CommandError> {
    let mut values = Vec::new();
    for source in source::read_all(&[file.to_owned()], depth)? {
        values.extend(parse::values(&source).map_err(CommandError::Invalid)?);
    }
    Ok(values)
}

//! Documents as a user writes them: Kubernetes objects in YAML or JSON, each with the places of its fields.

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
pub(crate) use kinds::{Kind, Template, kind};
pub(crate) use source::Depth;

use serde_json::Value;

use crate::refusal::{Failure, Refusal};

/// Reads every object of the files, directories and `-` that `-f` named, in their order.
///
/// # Errors
///
/// Everything that cannot be read as objects, of all files at once.
pub(crate) fn read(files: &[String], depth: Depth) -> Result<Vec<Document>, Failure> {
    let mut documents = Vec::new();
    let mut refusals = Vec::new();
    for source in source::read_all(files, depth)? {
        match parse::parse(&source) {
            Ok(found) => documents.extend(found),
            Err(mut found) => refusals.append(&mut found),
        }
    }
    if !refusals.is_empty() {
        return Err(Failure::Refused(refusals));
    }
    if documents.is_empty() {
        return Err(Failure::Refused(vec![Refusal::of_input(format!(
            "no objects in {}: every document is empty",
            files.join(", ")
        ))]));
    }
    Ok(documents)
}

/// Reads the documents of one file as plain values, whatever they are.
///
/// # Errors
///
/// Everything that is no YAML.
pub(crate) fn read_values(file: &str, depth: Depth) -> Result<Vec<Value>, Failure> {
    let mut values = Vec::new();
    for source in source::read_all(&[file.to_owned()], depth)? {
        values.extend(parse::values(&source).map_err(Failure::Refused)?);
    }
    Ok(values)
}

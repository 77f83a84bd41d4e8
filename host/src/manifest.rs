//! Reads and checks the user's manifests: Kubernetes objects in YAML or JSON, with the position of every field.

mod check;
mod document;
mod embedded;
mod field;
mod findings;
mod kinds;
mod kustomize;
mod named;
mod node;
mod numbering;
mod parse;
mod slices;
mod source;
mod syntax;
mod untouched;
mod verbatim;
mod written;

pub(crate) use check::check;
pub(crate) use document::Document;
pub(crate) use field::Step;
pub(crate) use field::{get, get_mut, name as field_name, steps};
pub(crate) use kinds::{DocumentKind, Template, is_cleaner, is_infrastructure, kind, workload};
pub(crate) use named::{NamedTemplate, apply as name_templates};
pub(crate) use source::Depth;
pub(crate) use untouched::Unknown;

use serde_json::Value;

use crate::error::{CommandError, Diagnostic};

/// The objects of all files, and what could not be read.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) documents: Vec<Document>,
    pub(crate) errors: Vec<Diagnostic>,
    /// Those of the programs that built kustomizations.
    pub(crate) warnings: Vec<Diagnostic>,
}

/// Reads all objects that can be read: of the files, directories and `-` that `-f` names, in their order, then of the kustomizations.
///
/// # Errors
///
/// Only what is wrong with the machine or the command line. What is wrong with the files is in the result.
pub(crate) fn find(
    files: &[String],
    kustomizations: &[String],
    depth: Depth,
) -> Result<Found, CommandError> {
    let mut found = Found::default();
    let mut sources = source::read_all(files, depth, &mut found.errors)?;
    for directory in kustomizations {
        match kustomize::build(directory) {
            Ok(built) => {
                sources.push(built.source);
                found.warnings.extend(built.warning);
            }
            Err(CommandError::Invalid(mut errors)) => found.errors.append(&mut errors),
            Err(other) => return Err(other),
        }
    }
    for source in sources {
        let mut parsed = parse::parse(&source);
        found.documents.append(&mut parsed.documents);
        found.errors.append(&mut parsed.errors);
    }
    if found.documents.is_empty() && found.errors.is_empty() {
        let names = [files, kustomizations].concat().join(", ");
        found.errors.push(Diagnostic::new(format!(
            "no objects in {names}: every document is empty"
        )));
    }
    Ok(found)
}

/// Reads all objects of the files, directories and `-` that `-f` names, in their order.
///
/// # Errors
///
/// Everything that cannot be read as an object, in all files at once.
pub(crate) fn read(files: &[String], depth: Depth) -> Result<Vec<Document>, CommandError> {
    let found = find(files, &[], depth)?;
    if found.errors.is_empty() {
        Ok(found.documents)
    } else {
        Err(CommandError::Invalid(found.errors))
    }
}

/// Reads the documents of one file as plain values, whether they are Kubernetes objects or not.
///
/// # Errors
///
/// Everything that is not valid YAML.
pub(crate) fn read_values(file: &str, depth: Depth) -> Result<Vec<Value>, CommandError> {
    let documents = read_any(file, depth)?.into_iter();
    Ok(documents.map(|document| document.value).collect())
}

/// Reads the documents of one file, whether they are Kubernetes objects or not.
///
/// # Errors
///
/// Everything that is not valid YAML.
pub(crate) fn read_any(file: &str, depth: Depth) -> Result<Vec<Document>, CommandError> {
    let mut documents = Vec::new();
    let mut errors = Vec::new();
    for source in source::read_all(&[file.to_owned()], depth, &mut errors)? {
        match parse::documents(&source) {
            Ok(found) => documents.extend(found),
            Err(mut found) => errors.append(&mut found),
        }
    }
    if errors.is_empty() {
        Ok(documents)
    } else {
        Err(CommandError::Invalid(errors))
    }
}

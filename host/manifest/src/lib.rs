//! Reads and checks the user's manifests: Kubernetes objects in YAML or JSON, with the position of every field.

mod check;
mod document;
pub mod error;
mod kinds;
mod parse;
mod rules;
mod slices;
mod source;
mod syntax;
mod untouched;
mod written;

pub use check::{Previous, Schemas, check, check_with};
pub use document::{
    Document, Step, controller, escape, get, get_mut, metadata, name as field_name, steps,
};
pub use kinds::{
    DocumentKind, NamedTemplate, Outlined, Template, apply as name_templates, is_cleaner,
    is_infrastructure, kind, templates, workload,
};
pub use source::Depth;
pub use untouched::{Unknown, unknown_owner};
pub use written::yaml;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::error::{CommandError, Diagnostic};

/// The objects of all files, and what could not be read.
#[derive(Debug, Default)]
pub struct Found {
    /// What could be read.
    pub documents: Vec<Document>,
    /// What could not, with the place.
    pub errors: Vec<Diagnostic>,
    /// Those of the programs that built kustomizations.
    pub warnings: Vec<Diagnostic>,
}

impl Found {
    /// The objects, if everything could be read.
    fn checked(self) -> Result<Vec<Document>, Vec<Diagnostic>> {
        match self.errors.is_empty() {
            true => Ok(self.documents),
            false => Err(self.errors),
        }
    }
}

/// The errors and warnings about the objects.
#[derive(Debug, Default)]
pub struct Findings {
    /// These end the command.
    pub errors: Vec<Diagnostic>,
    /// These are only printed: a newer Kubernetes may know the field, and a pod in an unknown kind may be none.
    pub warnings: Vec<Diagnostic>,
    /// The indices of the documents that have errors.
    pub refused: BTreeSet<usize>,
}

/// Reads all objects that can be read: of the files, directories and `-` that `-f` names, in their order, then of the kustomizations.
///
/// # Errors
///
/// Only what is wrong with the machine or the command line. What is wrong with the files is in the result.
pub fn find(
    files: &[String],
    kustomizations: &[String],
    depth: Depth,
) -> Result<Found, CommandError> {
    let mut documents = Vec::new();
    let found = find_each(files, kustomizations, depth, |more| {
        documents.extend(more);
        Ok(())
    })?;
    Ok(Found { documents, ..found })
}

/// Like [`find`], but gives the objects of one file after the other, so that not all of them are held in memory. The result has none.
///
/// # Errors
///
/// What is wrong with the machine or the command line, and what `take` returns.
pub fn find_each(
    files: &[String],
    kustomizations: &[String],
    depth: Depth,
    mut take: impl FnMut(Vec<Document>) -> Result<(), CommandError>,
) -> Result<Found, CommandError> {
    let mut found = Found::default();
    let mut is_empty = true;
    let mut read = |source: &source::Source, errors: &mut Vec<Diagnostic>| {
        let mut parsed = parse::parse(source);
        errors.append(&mut parsed.errors);
        is_empty &= parsed.documents.is_empty();
        take(parsed.documents)
    };
    for place in source::find_all(files, depth, &mut found.errors)? {
        match source::open(place.as_deref()) {
            Ok(source) => read(&source, &mut found.errors)?,
            Err(error) => found.errors.push(error),
        }
    }
    for directory in kustomizations {
        match source::build(directory) {
            Ok((source, warning)) => {
                found.warnings.extend(warning);
                read(&source, &mut found.errors)?;
            }
            Err(CommandError::Invalid(mut errors)) => found.errors.append(&mut errors),
            Err(other) => return Err(other),
        }
    }
    if is_empty && found.errors.is_empty() {
        let names = [files, kustomizations].concat().join(", ");
        found.errors.push(Diagnostic::new(format!(
            "no objects in {names}: every document is empty"
        )));
    }
    Ok(found)
}

/// Reads the objects of a text. `name` is what messages call its file.
pub fn parsed(name: &str, text: &str) -> Found {
    parse::parse(&source::Source {
        name: name.into(),
        text: text.into(),
    })
}

/// Reads all objects of the files, directories and `-` that `-f` names, in their order.
///
/// # Errors
///
/// Everything that cannot be read as an object, in all files at once.
pub fn read(files: &[String]) -> Result<Vec<Document>, CommandError> {
    let found = find(files, &[], Depth::Flat)?;
    found.checked().map_err(CommandError::Invalid)
}

/// Reads the documents of one file as plain values, whether they are Kubernetes objects or not.
///
/// # Errors
///
/// Everything that is not valid YAML.
pub fn read_values(file: &str) -> Result<Vec<Value>, CommandError> {
    let documents = read_any(file)?.into_iter();
    Ok(documents.map(|document| document.value).collect())
}

/// Reads the documents of one file, whether they are Kubernetes objects or not.
///
/// # Errors
///
/// Everything that is not valid YAML.
pub fn read_any(file: &str) -> Result<Vec<Document>, CommandError> {
    let mut found = Found::default();
    for place in source::find_all(&[file.to_owned()], Depth::Flat, &mut found.errors)? {
        let read = source::open(place.as_deref()).map_err(|error| vec![error]);
        match read.and_then(|source| parse::documents(&source)) {
            Ok(documents) => found.documents.extend(documents),
            Err(errors) => found.errors.extend(errors),
        }
    }
    found.checked().map_err(CommandError::Invalid)
}

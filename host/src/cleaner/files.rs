//! The Cleaners of some files, and the objects that are their world.

use jiff::Timestamp;
use podloom_api::{CleanerObject, CleanerSpec};
use podloom_controllers::cleaner::offline;
use podloom_controllers::{CleanerSettings, Findings};
use serde_json::Value;

use crate::cli::CleanerCheckArguments;
use crate::error::{CommandError, Diagnostic};
use crate::manifest::{self, Depth, Document, Unknown};
use crate::render::typed::{diagnostic, typed};
use crate::render::{Problems, duplicates};

/// The objects of some files.
pub(super) struct Files {
    cleaners: Vec<Document>,
    others: Vec<Document>,
}

/// A Cleaner without mistakes.
pub(super) struct Checked<'a> {
    pub(super) document: &'a Document,
    pub(super) namespace: &'a str,
    pub(super) spec: CleanerSpec,
    /// When it was created, if its file says so.
    pub(super) created: Option<Timestamp>,
}

impl Files {
    /// Reads all files.
    pub(super) fn read(
        arguments: &CleanerCheckArguments,
        problems: &mut Problems,
    ) -> Result<Self, CommandError> {
        let depth = match arguments.recursive {
            true => Depth::Recursive,
            false => Depth::Flat,
        };
        let found = manifest::find(&arguments.files, &[], depth)?;
        let is_readable = found.errors.is_empty();
        problems.errors.extend(found.errors);
        let (cleaners, others): (Vec<Document>, Vec<Document>) =
            found.documents.into_iter().partition(manifest::is_cleaner);
        // A check that looks at nothing must not succeed.
        if cleaners.is_empty() && is_readable {
            problems.errors.push(Diagnostic::new(format!(
                "no Cleaner in {}: their apiVersion is cleaner.vtex.dev/v1alpha",
                arguments.files.join(", ")
            )));
        }
        Ok(Self { cleaners, others })
    }

    /// Checks the Cleaners: against their schema, as the operator does, and their conditions.
    pub(super) fn cleaners<'a>(
        &'a self,
        default: &'a str,
        settings: &CleanerSettings,
        problems: &mut Problems,
    ) -> Result<Vec<Checked<'a>>, CommandError> {
        let schema = manifest::check(&self.cleaners, Unknown::LeftOut)?;
        problems.errors.extend(schema.errors);
        problems.warnings.extend(schema.warnings);
        let twice = duplicates::find(&self.cleaners, default);
        problems.errors.extend(twice);
        let mut checked = Vec::new();
        for (index, document) in self.cleaners.iter().enumerate() {
            let object: CleanerObject = match typed(document) {
                Ok(object) => object,
                Err(_) if schema.refused.contains(&index) => continue,
                Err(error) => {
                    problems.errors.push(error);
                    continue;
                }
            };
            let created = object.metadata.creation_timestamp;
            let cleaner = Checked {
                document,
                namespace: document.namespace(default),
                spec: object.spec,
                created: created.map(|time| time.0),
            };
            let findings = offline::check(&cleaner.spec, cleaner.namespace, settings);
            report(&cleaner, &findings, problems);
            checked.push(cleaner);
        }
        Ok(checked)
    }

    /// The objects that are no Cleaners, each with the namespace that the API server would put it into.
    pub(super) fn objects(&self, default: &str) -> Vec<Value> {
        let objects = self.others.iter().map(|document| {
            let mut object = document.value.clone();
            if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
                metadata.insert("namespace".to_owned(), document.namespace(default).into());
            }
            object
        });
        objects.collect()
    }
}

/// Adds findings to the problems. Where the schema refuses a field too, the finding says better what to write.
fn report(cleaner: &Checked<'_>, findings: &Findings, problems: &mut Problems) {
    let document = cleaner.document;
    let known = problems.errors.len();
    for finding in &findings.refusals {
        let error = diagnostic(document, finding, finding.text.clone());
        let mut earlier = problems.errors.iter_mut().take(known);
        match earlier.find(|it| it.position == error.position && it.field == error.field) {
            Some(earlier) => *earlier = error,
            None => problems.errors.push(error),
        }
    }
    let warnings = findings.warnings.iter();
    let warnings = warnings.map(|it| diagnostic(document, it, it.text.clone()));
    problems.warnings.extend(warnings);
}

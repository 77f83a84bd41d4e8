//! The pods in files, for commands that try plugins on them.

use crate::error::{CommandError, Diagnostic};
use crate::manifest::{self, Document, DocumentKind, Unknown};
use crate::render::Namespaces;
use crate::render::pod::{Subject, subject};

/// The pods among the documents, and those in pod templates. The user gets the warnings about files by `warn`.
pub(crate) fn subjects<'a>(
    documents: &'a [Document],
    namespace: &str,
    warn: &mut dyn FnMut(&Diagnostic),
) -> Result<Vec<(&'a Document, Subject)>, CommandError> {
    let findings = manifest::check(documents, Unknown::LeftOut)?;
    findings.warnings.iter().for_each(warn);
    if !findings.errors.is_empty() {
        return Err(CommandError::Invalid(findings.errors));
    }
    let namespaces = Namespaces::of(documents);
    let subjects: Vec<_> = documents
        .iter()
        .filter_map(|document| {
            let template = match manifest::kind(document) {
                DocumentKind::Pod => None,
                DocumentKind::Workload(template) => Some(template),
                _ => return None,
            };
            let subject = subject(document, template.as_ref(), &namespaces, namespace);
            Some((document, subject))
        })
        .collect();
    if subjects.is_empty() {
        return Err(CommandError::invalid(
            "no pod to run the plugin on: give Pods or workloads; for Browsers, render their pods first with `podloom render`",
        ));
    }
    Ok(subjects)
}

//! `--context`: objects that others are rendered with. They are not printed.

use std::collections::BTreeMap;

use crate::cli::RenderArguments;
use crate::error::{CommandError, Diagnostic};
use crate::manifest::{self, Depth, Document, DocumentKind, Found};

/// Both would read it to its end.
pub(super) fn check_arguments(arguments: &RenderArguments) -> Result<(), CommandError> {
    let is_stdin = |file: &String| file == "-";
    if arguments.files.iter().any(is_stdin) && arguments.context.iter().any(is_stdin) {
        return Err(CommandError::Usage(
            "-f - and --context - both read standard input: write one of them to a file".to_owned(),
        ));
    }
    Ok(())
}

/// Adds the context after the objects that were found. What is there already, word for word, is not added again.
pub(super) fn add(
    found: &mut Found,
    arguments: &RenderArguments,
    depth: Depth,
) -> Result<(), CommandError> {
    if arguments.context.is_empty() {
        return Ok(());
    }
    let context = manifest::find(&arguments.context, &[], depth)?;
    found.errors.extend(context.errors);
    let (context, others): (Vec<Document>, Vec<Document>) =
        context.documents.into_iter().partition(is_context);
    let namespace = arguments.namespace.as_str();
    let mut known: BTreeMap<_, &Document> = found
        .documents
        .iter()
        .map(|document| (key(document, namespace), document))
        .collect();
    let is_given = |document: &&Document| {
        let given = known.get(&key(document, namespace));
        given.is_some_and(|given| given.value == document.value)
    };
    let others = others.iter().filter(|document| !is_given(document));
    let left_out = left_out(&others.collect::<Vec<_>>());
    let mut added = Vec::new();
    for document in &context {
        let first = known.insert(key(document, namespace), document);
        if first.is_none_or(|first| first.value != document.value) {
            added.push(document.clone());
        }
    }
    found.documents.extend(added);
    found.warnings.extend(left_out);
    Ok(())
}

fn is_context(document: &Document) -> bool {
    match manifest::kind(document) {
        DocumentKind::Namespace | DocumentKind::BrowserConfig | DocumentKind::TunnelClass => true,
        // The Service of a PortalExpose.
        DocumentKind::Other => document.kind == "Service",
        _ => false,
    }
}

fn key<'a>(document: &'a Document, namespace: &'a str) -> (&'a str, &'a str, &'a str) {
    let home = document.namespace(namespace);
    (&document.kind, home, document.name())
}

/// Somebody may have meant to render them.
fn left_out(others: &[&Document]) -> Option<Diagnostic> {
    let first = others.first()?;
    let more = match others.len() {
        1 => String::new(),
        number => format!(", and {} more of --context", number - 1),
    };
    Some(first.diagnostic(
        &[],
        format!(
            "left out{more}: context are Namespaces, BrowserConfigs, TunnelClasses and Services; give anything else with -f"
        ),
    ))
}

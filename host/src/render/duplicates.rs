//! Finds duplicate objects: the API server would take the second for an update of the first.
//!
//! A Browser's pod has the Browser's name, so a Pod of that name in the same namespace is a duplicate too.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use crate::error::Diagnostic;
use crate::manifest::{self, Document, DocumentKind};

/// Finds duplicates among the objects of our kinds, and those that matter for pods.
pub(crate) fn find<D: Borrow<Document>>(documents: &[D], namespace: &str) -> Vec<Diagnostic> {
    let mut seen: BTreeMap<(&str, &str, &str), &Document> = BTreeMap::new();
    let mut errors = Vec::new();
    for document in documents.iter().map(Borrow::borrow) {
        let home = match manifest::kind(document) {
            DocumentKind::Browser | DocumentKind::BrowserConfig | DocumentKind::PortalExpose => {
                document.namespace(namespace)
            }
            DocumentKind::Namespace | DocumentKind::TunnelClass => "",
            DocumentKind::Infrastructure(kind) if kind.is_global() => "",
            DocumentKind::Infrastructure(_) | DocumentKind::Cleaner => {
                document.namespace(namespace)
            }
            _ => continue,
        };
        if document.name().is_empty() {
            continue;
        }
        let key = (document.kind.as_str(), home, document.name());
        if let Some(first) = seen.insert(key, document) {
            let first = first.position(&[]);
            errors.push(document.diagnostic(
                &["metadata".into(), "name".into()],
                format!(
                    "duplicate: also defined at {}:{}, document {}; remove or rename one",
                    first.file, first.line, first.document
                ),
            ));
        }
    }
    errors.extend(pods_of_browsers(documents, namespace));
    errors
}

/// Finds Pods that have the name of a Browser's pod.
fn pods_of_browsers<'a, D: Borrow<Document>>(
    documents: &'a [D],
    namespace: &'a str,
) -> Vec<Diagnostic> {
    let of_kind = |kind: DocumentKind| {
        documents
            .iter()
            .map(Borrow::borrow)
            .filter(move |document: &&Document| manifest::kind(document) == kind)
            .map(move |document| ((document.namespace(namespace), document.name()), document))
    };
    let browsers: BTreeMap<(&str, &str), &Document> = of_kind(DocumentKind::Browser).collect();
    of_kind(DocumentKind::Pod)
        .filter_map(|(name, pod)| {
            let browser = browsers.get(&name)?.position(&[]);
            Some(pod.diagnostic(
                &["metadata".into(), "name".into()],
                format!(
                    "the pod of the Browser at {}:{}, document {}, has the same name; rename one",
                    browser.file, browser.line, browser.document
                ),
            ))
        })
        .collect()
}

//! Objects that are given twice: the API server would take the second for a change of the first.

use std::collections::BTreeMap;

use crate::manifest::{self, Document, Kind};
use crate::refusal::Refusal;

/// Finds what is given twice among the objects that decide about pods.
pub(super) fn find(documents: &[Document], namespace: &str) -> Vec<Refusal> {
    let mut seen: BTreeMap<(&str, &str, &str), &Document> = BTreeMap::new();
    let mut refusals = Vec::new();
    for document in documents {
        let home = match manifest::kind(document) {
            Kind::Browser | Kind::BrowserConfig => document.namespace(namespace),
            Kind::Namespace => "",
            _ => continue,
        };
        if document.name().is_empty() {
            continue;
        }
        let key = (document.kind.as_str(), home, document.name());
        if let Some(first) = seen.insert(key, document) {
            let first = first.place(&[]);
            refusals.push(document.refuse(
                &["metadata".into(), "name".into()],
                format!(
                    "given twice: first at {}:{}, document {}",
                    first.file, first.line, first.document
                ),
            ));
        }
    }
    refusals
}

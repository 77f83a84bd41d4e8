//! Objects that are given twice: the API server would take the second for a change of the first.
//!
//! A Browser's pod has the Browser's name, so a Pod of that name in the same namespace is the same object.

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
    refusals.extend(pods_of_browsers(documents, namespace));
    refusals
}

/// Pods that have the place of a Browser's pod.
fn pods_of_browsers<'a>(documents: &'a [Document], namespace: &'a str) -> Vec<Refusal> {
    let of_kind = |kind: Kind| {
        documents
            .iter()
            .filter(move |document| manifest::kind(document) == kind)
            .map(move |document| ((document.namespace(namespace), document.name()), document))
    };
    let browsers: BTreeMap<(&str, &str), &Document> = of_kind(Kind::Browser).collect();
    of_kind(Kind::Pod)
        .filter_map(|(name, pod)| {
            let browser = browsers.get(&name)?.place(&[]);
            Some(pod.refuse(
                &["metadata".into(), "name".into()],
                format!(
                    "the Browser at {}:{}, document {}, makes a pod of this name: rename one",
                    browser.file, browser.line, browser.document
                ),
            ))
        })
        .collect()
}

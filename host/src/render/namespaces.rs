//! The labels and annotations of namespaces, which plugins can read.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use podloom_mutation::NamespaceMetadata;

use crate::manifest::{self, Document, DocumentKind};

/// Labels and annotations of the namespaces among the documents.
#[derive(Default)]
pub(crate) struct Namespaces(BTreeMap<String, NamespaceMetadata>);

impl Namespaces {
    pub(crate) fn of<D: Borrow<Document>>(documents: &[D]) -> Self {
        let namespaces = documents
            .iter()
            .map(Borrow::borrow)
            .filter(|document: &&Document| manifest::kind(document) == DocumentKind::Namespace)
            .map(|document| {
                let about = NamespaceMetadata::of(&document.value);
                (document.name().to_owned(), about)
            });
        Self(namespaces.collect())
    }

    /// Adds what a cluster says of a namespace.
    pub(crate) fn insert(&mut self, name: String, metadata: NamespaceMetadata) {
        self.0.insert(name, metadata);
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// A namespace that is not among the documents still has the label with its name, as in a cluster.
    pub(crate) fn get(&self, name: &str) -> NamespaceMetadata {
        self.0.get(name).cloned().unwrap_or_default().named(name)
    }
}

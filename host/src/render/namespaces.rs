//! The labels and annotations of namespaces, which plugins can read.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::manifest::{self, Document, DocumentKind};

/// The label that the API server sets on every namespace.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Labels and annotations of the namespaces among the documents.
#[derive(Default)]
pub(crate) struct Namespaces(BTreeMap<String, Metadata>);

/// The labels and annotations of one namespace.
#[derive(Clone, Default)]
pub(crate) struct Metadata {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
}

impl Namespaces {
    pub(crate) fn of<D: Borrow<Document>>(documents: &[D]) -> Self {
        let namespaces = documents
            .iter()
            .map(Borrow::borrow)
            .filter(|document: &&Document| manifest::kind(document) == DocumentKind::Namespace)
            .map(|document| {
                let metadata = Metadata {
                    labels: texts(document.value.pointer("/metadata/labels")),
                    annotations: texts(document.value.pointer("/metadata/annotations")),
                };
                (document.name().to_owned(), metadata)
            });
        Self(namespaces.collect())
    }

    /// Adds what a cluster says of a namespace.
    pub(crate) fn insert(&mut self, name: String, metadata: Metadata) {
        self.0.insert(name, metadata);
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// A namespace that is not among the documents still has the label with its name, as in a cluster.
    pub(crate) fn get(&self, name: &str) -> Metadata {
        let mut metadata = self.0.get(name).cloned().unwrap_or_default();
        metadata
            .labels
            .insert(NAME_LABEL.to_owned(), name.to_owned());
        metadata
    }
}

/// The strings of a map. The documents were checked, so all its values are strings.
pub(crate) fn texts(map: Option<&Value>) -> BTreeMap<String, String> {
    map.and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

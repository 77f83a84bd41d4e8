//! The labels of namespaces, as far as they may be read.

use std::collections::BTreeMap;

use super::selector::Label;

/// The label that the API server sets on every namespace.
const NAME: &str = "kubernetes.io/metadata.name";

/// The labels of the namespaces that could be read.
#[derive(Default)]
pub(super) struct Namespaces(BTreeMap<String, BTreeMap<String, String>>);

impl Namespaces {
    pub(super) fn insert(&mut self, name: String, labels: BTreeMap<String, String>) {
        self.0.insert(name, labels);
    }

    pub(super) fn is_known(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// A label of a namespace. Of one that could not be read, the name is known.
    pub(super) fn label<'a>(&'a self, name: &'a str, key: &str) -> Label<'a> {
        match self.0.get(name) {
            _ if key == NAME => Label::Is(name),
            None => Label::Unknown,
            Some(labels) => match labels.get(key) {
                Some(value) => Label::Is(value),
                None => Label::Absent,
            },
        }
    }

    /// The labels that a plugin of the chain sees.
    pub(super) fn labels(&self, name: &str) -> BTreeMap<String, String> {
        let mut labels = self.0.get(name).cloned().unwrap_or_default();
        labels.insert(NAME.to_owned(), name.to_owned());
        labels
    }
}

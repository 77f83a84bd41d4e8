//! Which Cleaner is meant.

use std::sync::Arc;

use kube::core::ObjectMeta;

/// A Cleaner. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CleanerId {
    /// Its namespace.
    pub(super) namespace: Arc<str>,
    /// Its name.
    pub(super) name: Arc<str>,
    /// Its UID.
    pub(super) uid: Arc<str>,
}

impl CleanerId {
    /// Returns the one with this metadata.
    pub(super) fn of(metadata: &ObjectMeta) -> Self {
        let text = |text: &Option<String>| Arc::from(text.as_deref().unwrap_or_default());
        Self {
            namespace: text(&metadata.namespace),
            name: text(&metadata.name),
            uid: text(&metadata.uid),
        }
    }
}

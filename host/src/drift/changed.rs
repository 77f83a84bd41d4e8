//! What somebody changed after the chain had written it.

use std::collections::BTreeSet;

use podloom_api::names;
use podloom_mutators::{CHAIN, MUTATIONS};
use serde_json::Value;

use super::pod::Stamp;
use crate::managed_fields::{Entry, ManagedFields};

/// A path that the chain wrote, and that another manager owns now.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Change {
    pub(crate) path: String,
    /// The plugin that wrote it; none for the stamp itself.
    pub(crate) plugin: Option<String>,
    /// The field manager.
    pub(crate) manager: String,
}

/// An object with a stamp.
pub(super) struct Stamped<'o> {
    pub(super) object: &'o Value,
    pub(super) stamp: &'o Stamp,
    /// Where the pod is in the object, as a path.
    pub(super) pod: &'static str,
}

impl Stamped<'_> {
    /// What was changed. A value that somebody removed has no owner, so it is not found.
    pub(super) fn changes(&self) -> BTreeSet<Change> {
        let fields = ManagedFields::of(self.object);
        let mut changes = BTreeSet::new();
        let mut look = |path: &str, shown: &str, plugin: Option<&str>| {
            let later = fields.owners_within(path).into_iter();
            let later = later.filter(|entry| is_foreign(entry));
            changes.extend(later.map(|entry| Change {
                path: shown.to_owned(),
                plugin: plugin.map(str::to_owned),
                manager: entry.manager.clone(),
            }));
        };
        for annotation in [CHAIN, MUTATIONS] {
            let path = format!("/metadata/annotations/{}", annotation.replace('/', "~1"));
            look(&path, &path, None);
        }
        for entry in &self.stamp.entries {
            for path in &entry.paths {
                let name = Some(entry.name.as_str());
                look(&format!("{}{path}", self.pod), path, name);
            }
        }
        changes
    }
}

/// Whether neither the one who made the object nor Podloom wrote this, but somebody after them.
fn is_foreign(entry: &Entry) -> bool {
    entry.is_later_edit() && entry.manager != names::portal::FIELD_MANAGER
}

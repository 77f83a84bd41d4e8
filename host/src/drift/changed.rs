//! What somebody changed after the chain had written it.

use std::collections::BTreeSet;

use podloom_api::names;
use podloom_mutators::{CHAIN, MUTATIONS, MutationEntry};
use serde::Serialize;
use serde_json::Value;

use super::pod::kept;
use crate::managed_fields::{Entry, ManagedFields};

/// How many changes are listed, of a pod and of all pods of an owner.
pub(super) const LISTED: usize = 20;
/// How many elements of lists are looked at in one pod. A pod with many containers needs some ten thousand, and these take a few
/// milliseconds.
const WORK: u64 = 200_000;

/// A path that the chain wrote, and that another manager owns now.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
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
    /// What the stamp lists.
    pub(super) entries: &'o [MutationEntry],
    /// Where the pod is in the object, as a path.
    pub(super) pod: &'static str,
}

/// What was changed.
pub(super) struct Changes {
    /// The first ones, one more than are listed.
    pub(super) first: BTreeSet<Change>,
    /// Whether all paths were looked at, up to the last one of those.
    pub(super) is_whole: bool,
}

impl Stamped<'_> {
    /// What was changed. A value that somebody removed has no owner, so it is not found.
    pub(super) fn changes(&self) -> Changes {
        let fields = ManagedFields::of(self.object, WORK);
        let mut first = BTreeSet::new();
        for (path, plugin) in self.written() {
            let owners = match plugin {
                Some(_) => fields.owners_within(&format!("{}{path}", self.pod)),
                None => fields.owners_within(&path),
            };
            let foreign = owners.into_iter().filter(|owner| is_foreign(owner));
            first.extend(foreign.map(|owner| Change {
                path: kept(&path),
                plugin: plugin.map(kept),
                manager: kept(&owner.manager),
            }));
            // Paths are sorted, and changes are by path.
            if first.len() > LISTED {
                break;
            }
        }
        keep_first(&mut first);
        Changes {
            first,
            is_whole: !fields.is_cut(),
        }
    }

    /// Each path that the chain wrote, and the plugin that did; none for the stamp itself.
    fn written(&self) -> BTreeSet<(String, Option<&str>)> {
        let stamp = [CHAIN, MUTATIONS].map(|annotation| {
            let path = format!("/metadata/annotations/{}", annotation.replace('/', "~1"));
            (path, None)
        });
        let by_plugins = self.entries.iter().flat_map(|entry| {
            let paths = entry.paths.iter().cloned();
            paths.map(|path| (path, Some(entry.name.as_str())))
        });
        stamp.into_iter().chain(by_plugins).collect()
    }
}

/// Keeps one change more than are listed.
pub(super) fn keep_first(changes: &mut BTreeSet<Change>) {
    while changes.len() > LISTED + 1 {
        changes.pop_last();
    }
}

/// Whether neither the one who made the object nor Podloom wrote this, but somebody after them.
fn is_foreign(entry: &Entry) -> bool {
    entry.is_later_edit() && entry.manager != names::portal::FIELD_MANAGER
}

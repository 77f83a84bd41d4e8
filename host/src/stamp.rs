//! The stamp that a chain left on an object, as it is read again.
//!
//! Everyone who may write the object may write another stamp, so what is read is limited.

use std::collections::BTreeSet;

use podloom_mutators::{CHAIN, MUTATIONS, MutationEntry};
use serde_json::Value;

/// How much of a digest is kept.
const DIGEST: usize = 64;
/// The longest list of mutations that is read. The paths of a pod take up to 4 KiB of it.
const MUTATIONS_BYTES: usize = 16 * 1024;

/// What is in the annotations of a stamp.
#[derive(Clone, Debug)]
pub(crate) struct Stamp {
    /// Of the chain.
    pub(crate) digest: Option<String>,
    /// What each plugin wrote, in the order of the chain, each path once; none if there is no list, or none that Podloom can have
    /// written.
    pub(crate) entries: Option<Vec<MutationEntry>>,
}

/// The object without the annotations of a stamp.
pub(crate) fn without(object: &Value) -> Value {
    let mut object = object.clone();
    remove(&mut object);
    object
}

/// Removes the annotations of a stamp; returns whether there were any. What held them stays, even if nothing else is in it.
pub(crate) fn remove(object: &mut Value) -> bool {
    let annotations = object.pointer_mut("/metadata/annotations");
    let Some(annotations) = annotations.and_then(Value::as_object_mut) else {
        return false;
    };
    let removed = [CHAIN, MUTATIONS].map(|key| annotations.remove(key));
    removed.iter().any(Option::is_some)
}

impl Stamp {
    /// None if the object has neither of the annotations.
    pub(crate) fn of(object: &Value) -> Option<Self> {
        let annotations = object.get("metadata")?.get("annotations")?;
        let text = |key: &str| annotations.get(key).and_then(Value::as_str);
        let (digest, mutations) = (text(CHAIN), text(MUTATIONS));
        if digest.is_none() && mutations.is_none() {
            return None;
        }
        Some(Self {
            digest: digest.map(|digest| digest.chars().take(DIGEST).collect()),
            entries: mutations.and_then(entries),
        })
    }

    /// The chain's digest and what each plugin wrote; none unless Podloom can have written this: a chain has each plugin once.
    pub(crate) fn chain(&self) -> Option<(&str, &[MutationEntry])> {
        let (digest, entries) = (self.digest.as_deref()?, self.entries.as_deref()?);
        let names: BTreeSet<&str> = entries.iter().map(|it| it.name.as_str()).collect();
        (names.len() == entries.len()).then_some((digest, entries))
    }
}

fn entries(text: &str) -> Option<Vec<MutationEntry>> {
    if text.len() > MUTATIONS_BYTES {
        return None;
    }
    let mut entries: Vec<MutationEntry> = serde_json::from_str(text).ok()?;
    for entry in &mut entries {
        entry.paths.sort();
        entry.paths.dedup();
    }
    Some(entries)
}

#[cfg(test)]
mod tests;

//! What was seen of targets in one pass.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::allowance::Share;
use super::served::ServedKind;

/// The targets that conditions see, as they were in this pass.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sight {
    /// The time for the conditions: when it was found that the Cleaner is old enough.
    pub(super) at: Timestamp,
    /// How many events of targets had come before.
    pub(super) events: u64,
    /// The targets that were found, in the order of the spec: those that conditions see, and single ones by their name only.
    pub(super) targets: Vec<SeenTarget>,
    /// The first problem, if there is one.
    pub(super) problem: Option<Problem>,
    /// The kinds that the operator may not watch.
    pub(super) unwatched: Vec<String>,
}

/// One target.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SeenTarget {
    /// Its name in the spec.
    pub(super) name: String,
    /// Whether conditions see it.
    pub(super) is_evaluated: bool,
    /// Whether it is deleted.
    pub(super) is_deleted: bool,
    /// Its kind.
    pub(super) kind: Arc<ServedKind>,
    /// Its objects.
    pub(super) found: Found,
    /// The memory that they take; none if they are from no cluster.
    pub(super) share: Option<Arc<Share>>,
}

/// The objects of a target.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Found {
    /// One that was not read.
    Named(String),
    /// One that does not exist.
    Missing(String),
    /// One object.
    One(Value),
    /// A list, with `items`.
    List(Value),
}

/// Why the targets cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// The name of the target in the spec.
    pub(super) target: String,
    /// A sentence for people.
    pub(super) message: String,
    /// Whether it may go well soon.
    pub(super) is_transient: bool,
}

impl Problem {
    /// Returns one that stays until something changes.
    pub(super) fn lasting(target: &str, message: &impl fmt::Display) -> Self {
        Self {
            target: target.to_owned(),
            message: message.to_string(),
            is_transient: false,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "target {}: {}", self.target, self.message)
    }
}

impl SeenTarget {
    /// Returns its objects.
    pub(super) fn objects(&self) -> &[Value] {
        match &self.found {
            Found::Named(_) | Found::Missing(_) => &[],
            Found::One(object) => std::slice::from_ref(object),
            Found::List(list) => list
                .get("items")
                .and_then(Value::as_array)
                .map_or(&[], Vec::as_slice),
        }
    }

    /// Returns what conditions see; none if it was not read.
    pub(super) fn state(&self) -> Option<&Value> {
        match &self.found {
            Found::Named(_) | Found::Missing(_) => None,
            Found::One(object) | Found::List(object) => Some(object),
        }
    }

    /// Returns the names of its objects, of one also if it does not exist.
    pub(super) fn names(&self) -> Vec<&str> {
        match &self.found {
            Found::Named(name) | Found::Missing(name) => vec![name],
            Found::One(_) | Found::List(_) => self
                .objects()
                .iter()
                .map(|object| metadata(object, "name"))
                .collect(),
        }
    }
}

/// Returns a text of an object's metadata; empty if there is none.
pub(super) fn metadata<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

//! Reads targets from the API server, and what was seen of them in a pass: nothing is decided from a cache.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use podloom_engine::kind::ResourceScope;
use serde_json::Value;

use crate::checked::{CheckedTarget, Selection};
use crate::discovery::{Discovery, FailureKind, RequestError, ServedKind};
use crate::objects::{Objects, Place, Share};
use crate::settings::{CleanerSettings, GroupResource};

/// Reads targets. Cheap to clone.
#[derive(Clone)]
pub(super) struct Reader {
    pub(super) discovery: Discovery,
    pub(super) objects: Objects,
    pub(super) settings: Arc<CleanerSettings>,
}

impl Reader {
    /// Finds the kind of a target.
    ///
    /// # Errors
    ///
    /// If there is no such kind, if that cannot be said now, or if targets must not have it.
    pub(super) async fn kind(&self, target: &CheckedTarget) -> Result<Arc<ServedKind>, Problem> {
        let kind = self.discovery.find(&target.kind).await;
        let kind = kind.map_err(|error| failed(target, &error))?;
        match self.allows(&kind) {
            true => Ok(kind),
            false => Err(not_allowed(target, &kind)),
        }
    }

    /// Returns whether targets may have a kind: each in namespaces, and those in none that a flag names.
    pub(super) fn allows(&self, kind: &ServedKind) -> bool {
        allows(&self.settings, kind)
    }

    /// Reads the objects of a target in a namespace.
    ///
    /// # Errors
    ///
    /// If the selector cannot match anything, if the API server refuses, or if an object is missing that conditions see.
    pub(super) async fn target(
        &self,
        target: &CheckedTarget,
        kind: &Arc<ServedKind>,
        namespace: &str,
    ) -> Result<SeenTarget, Problem> {
        let within = kind.namespace(namespace);
        let mut share = self.objects.share(namespace);
        let read = match &target.selection {
            Selection::One(name) => {
                let place = Place {
                    kind,
                    namespace: within,
                    name,
                };
                let object = self.objects.get_kept(place, &mut share).await;
                object.map(|it| it.map_or_else(|| Found::Missing(name.clone()), Found::One))
            }
            Selection::Labelled(Ok(selector)) => {
                let list = self.objects.list(kind, within, selector, &mut share);
                list.await.map(Found::List)
            }
            Selection::Labelled(Err(error)) => return Err(Problem::lasting(&target.name, error)),
        };
        match read {
            // If it is only deleted, there is nothing to do.
            Ok(Found::Missing(name)) if target.is_evaluated => {
                let kind = &kind.resource.kind;
                let text = format!("there is no {kind} {name} in this namespace");
                Err(Problem::lasting(&target.name, &text))
            }
            Ok(found) => Ok(SeenTarget {
                share: Some(Arc::new(share)),
                ..seen(target, kind, found)
            }),
            Err(error) => {
                // What the discovery knows may be old: the kind may have gone.
                if error.kind == FailureKind::NotServed {
                    self.discovery.forget(&target.kind).await;
                }
                Err(failed(target, &error))
            }
        }
    }
}

/// Returns whether targets may have a kind by these settings: each in namespaces, and those in none that a flag names.
pub(super) fn allows(settings: &CleanerSettings, kind: &ServedKind) -> bool {
    let resource = GroupResource {
        plural: kind.resource.plural.clone(),
        group: kind.resource.group.clone(),
    };
    kind.scope == ResourceScope::Namespaced || settings.cluster_scoped.contains(&resource)
}

/// Returns the problem of a target whose kind is in no namespace, and named by no flag.
pub(super) fn not_allowed(target: &CheckedTarget, kind: &ServedKind) -> Problem {
    let text = format!(
        "objects of kind {} are in no namespace, and the operator's flag --cleaner-cluster-scoped does not name {}",
        kind.resource.kind,
        kind.key()
    );
    Problem::lasting(&target.name, &text)
}

fn failed(target: &CheckedTarget, error: &RequestError) -> Problem {
    Problem {
        target: target.name.clone(),
        message: error.to_string(),
        is_transient: error.is_transient(),
    }
}

/// Returns a target as it was seen.
pub(super) fn seen(target: &CheckedTarget, kind: &Arc<ServedKind>, found: Found) -> SeenTarget {
    SeenTarget {
        name: target.name.clone(),
        is_evaluated: target.is_evaluated,
        is_deleted: target.is_deleted,
        kind: Arc::clone(kind),
        found,
        share: None,
    }
}

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

/// Returns whether the deletion of an object has begun.
pub(super) fn is_terminating(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

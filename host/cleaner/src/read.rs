//! Reads targets from the API server: nothing is decided from a cache.

use std::sync::Arc;

use podloom_engine::kind::ResourceScope;

use super::checked::{CheckedTarget, Selection};
use super::discovery::{Discovery, KindError};
use super::failure::{FailureKind, RequestError};
use super::objects::{Objects, Place};
use super::served::ServedKind;
use super::settings::{CleanerSettings, GroupResource};
use super::sight::{Found, Problem, SeenTarget};

/// Reads targets. Cheap to clone.
#[derive(Clone)]
pub(super) struct Reader {
    pub(super) discovery: Discovery,
    pub(super) objects: Objects,
    pub(super) settings: Arc<CleanerSettings>,
}

/// What it means that a single object does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IfMissing {
    /// Conditions cannot be evaluated.
    Problem,
    /// There is nothing to delete.
    Skip,
}

impl Reader {
    /// Finds the kind of a target.
    ///
    /// # Errors
    ///
    /// If there is no such kind, if that cannot be said now, or if targets must not have it.
    pub(super) async fn kind(&self, target: &CheckedTarget) -> Result<Arc<ServedKind>, Problem> {
        let kind = self.discovery.find(&target.kind).await;
        let kind = kind.map_err(|error| unknown(target, error))?;
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
    /// If the selector cannot match anything, if the API server refuses, or if an object is missing that must be there.
    pub(super) async fn target(
        &self,
        target: &CheckedTarget,
        kind: &Arc<ServedKind>,
        namespace: &str,
        if_missing: IfMissing,
    ) -> Result<SeenTarget, Problem> {
        let within = kind.namespace(namespace);
        let mut share = self.objects.share(namespace);
        let found = match &target.selection {
            Selection::One(name) => {
                let place = Place {
                    kind,
                    namespace: within,
                    name,
                };
                let object = self.objects.get_kept(place, &mut share).await;
                match object.map_err(|error| failed(target, &error)) {
                    Ok(Some(object)) => Found::One(object),
                    Ok(None) if if_missing == IfMissing::Skip => Found::Missing(name.clone()),
                    Ok(None) => {
                        let kind = &kind.resource.kind;
                        let text = format!("there is no {kind} {name} in this namespace");
                        return Err(Problem::lasting(&target.name, &text));
                    }
                    Err(problem) => return Err(self.failed(target, problem).await),
                }
            }
            Selection::Labelled(Err(error)) => return Err(Problem::lasting(&target.name, error)),
            Selection::Labelled(Ok(selector)) => {
                let list = self.objects.list(kind, within, selector, &mut share);
                match list.await {
                    Ok(list) => Found::List(list),
                    Err(error) => return Err(self.failed(target, failed(target, &error)).await),
                }
            }
        };
        Ok(SeenTarget {
            share: Some(Arc::new(share)),
            ..seen(target, kind, found)
        })
    }

    /// What the discovery knows may be old: the kind may have gone.
    async fn failed(&self, target: &CheckedTarget, (kind, problem): Failed) -> Problem {
        if kind == FailureKind::NotServed {
            self.discovery.forget(&target.kind).await;
        }
        problem
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

/// A request for a target that failed.
type Failed = (FailureKind, Problem);

fn failed(target: &CheckedTarget, error: &RequestError) -> Failed {
    let problem = Problem {
        target: target.name.clone(),
        message: error.to_string(),
        is_transient: error.is_transient(),
    };
    (error.kind, problem)
}

fn unknown(target: &CheckedTarget, error: KindError) -> Problem {
    match error {
        KindError::Unknown(message) => Problem::lasting(&target.name, &message),
        KindError::Request(error) => failed(target, &error).1,
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

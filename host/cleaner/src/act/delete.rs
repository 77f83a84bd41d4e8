//! Deletes: the Cleaner itself, and the objects of a plan. Each request has a UID and a propagation policy.

use std::time::Duration;

use futures::{StreamExt, stream};
use kube::core::ApiResource;
use podloom_api::{PlannedObject, PropagationPolicy};
use podloom_engine::error::Error;
use podloom_engine::kind::{Context, ResourceScope};
use podloom_engine::readable::Answered;
use tokio::time::Instant;

use super::{Hands, retry};
use crate::action::{ActionOutcome, Fate};
use crate::checked::KindReference;
use crate::discovery::KindError;
use crate::failure::{FailureKind, RequestError};
use crate::guards::is_excluded;
use crate::objects::{Deleted, Place};
use crate::rules::Rules;
use crate::served::ServedKind;
use crate::sight::metadata;
use crate::stored::StoredCleaner;
use crate::world::World;

/// How many objects are deleted at once.
const PARALLEL: usize = 8;
/// After this time, no deletion begins in a pass: those that have begun may take a while.
const BEGIN_WITHIN: Duration = Duration::from_secs(15);

impl Hands {
    /// Deletes the Cleaner, which stays until our finalizer is removed.
    pub(super) async fn delete_cleaner(&self, world: &World) -> Result<ActionOutcome, Error> {
        let kind = cleaners(&self.resource);
        let seen = &world.cleaner.metadata;
        let place = Place {
            kind: &kind,
            namespace: seen.namespace.as_deref(),
            name: seen.name.as_deref().unwrap_or_default(),
        };
        let objects = &self.eyes.reader.objects;
        let deleted = objects.delete(place, world.uid(), PropagationPolicy::Background);
        match deleted.await {
            Ok(Deleted::Accepted(answer)) => {
                // Without a finalizer it is gone, and the answer is no Cleaner.
                let answered = serde_json::from_slice::<Answered<StoredCleaner>>(&answer);
                let cleaner = answered.ok().map(|Answered(cleaner)| Box::new(cleaner));
                Ok(ActionOutcome::Cleaner(cleaner))
            }
            Ok(Deleted::Gone) => Ok(ActionOutcome::Cleaner(None)),
            // Another one has its name.
            Err(error) if error.kind == FailureKind::Conflict => Ok(ActionOutcome::Cleaner(None)),
            Err(error) => Err(retry("DeleteCleaner", error.to_string())),
        }
    }

    /// Deletes objects of the plan. A failure of one stops no other.
    pub(super) async fn delete_targets(
        &self,
        ctx: &Context,
        world: &World,
        places: &[usize],
    ) -> ActionOutcome {
        let began = Instant::now();
        let rules = &Rules::of(world.spec());
        let work = planned(world, places).map(|(place, object)| async move {
            if began.elapsed() > BEGIN_WITHIN {
                return None;
            }
            let fate = self.delete(world.namespace(), object, rules).await;
            self.metrics.deleted(&fate);
            Some((place, fate))
        });
        let work: Vec<_> = work.collect();
        let fates = stream::iter(work).buffered(PARALLEL);
        let fates: Vec<Option<(usize, Fate)>> = fates.collect().await;
        let memory = &self.eyes.memory;
        memory.attempted(world.uid(), ctx.clock.now());
        ActionOutcome::Deleted(fates.into_iter().flatten().collect())
    }

    /// Looks which objects of the plan are gone. One that cannot be read may still exist.
    pub(super) async fn confirm(&self, world: &World, places: &[usize]) -> ActionOutcome {
        let began = Instant::now();
        let work = planned(world, places).map(|(place, object)| async move {
            let is_in_time = began.elapsed() <= BEGIN_WITHIN;
            (is_in_time && self.is_gone(world.namespace(), object).await).then_some(place)
        });
        let work: Vec<_> = work.collect();
        let gone = stream::iter(work).buffered(PARALLEL);
        let gone: Vec<Option<usize>> = gone.collect().await;
        ActionOutcome::Confirmed(gone.into_iter().flatten().collect())
    }

    async fn delete(&self, namespace: &str, object: &PlannedObject, rules: &Rules) -> Fate {
        let kind = match self.kind_of(object).await {
            Ok(kind) => kind,
            Err(fate) => return fate,
        };
        let place = match self.place(&kind, namespace, object) {
            Ok(place) => place,
            Err(objection) => return Fate::Skipped(objection),
        };
        let objects = &self.eyes.reader.objects;
        match objects.get_metadata(place).await {
            Ok(None) => return Fate::Gone,
            Ok(Some(found)) if metadata(&found, "uid") != object.uid => return Fate::Replaced,
            Ok(Some(found)) => {
                if let Some(objection) = rules.objection_to_found(object, &found) {
                    return Fate::Skipped(objection);
                }
            }
            Err(error) => return self.failed(object, &error).await,
        }
        match objects.delete(place, &object.uid, rules.propagation).await {
            Ok(Deleted::Accepted(_)) => Fate::Accepted,
            Ok(Deleted::Gone) => Fate::Gone,
            Err(error) if error.kind == FailureKind::Conflict => {
                self.after_conflict(place, object, error.to_string()).await
            }
            Err(error) => self.failed(object, &error).await,
        }
    }

    async fn failed(&self, object: &PlannedObject, error: &RequestError) -> Fate {
        if error.kind == FailureKind::NotServed {
            // The next attempt finds whether the kind has gone.
            self.eyes.reader.discovery.forget(&reference(object)).await;
        }
        Fate::Failed(error.to_string())
    }

    /// A conflict means another UID, or that somebody else was faster.
    async fn after_conflict(&self, place: Place<'_>, object: &PlannedObject, said: String) -> Fate {
        match self.eyes.reader.objects.get(place).await {
            Ok(None) => Fate::Gone,
            Ok(Some(found)) if metadata(&found, "uid") != object.uid => Fate::Replaced,
            // A namespace cannot be deleted twice. The answer to the first request may be lost.
            Ok(Some(found)) if !found["metadata"]["deletionTimestamp"].is_null() => Fate::Accepted,
            Ok(Some(_)) => Fate::Failed(said),
            Err(error) => Fate::Failed(error.to_string()),
        }
    }

    async fn is_gone(&self, namespace: &str, object: &PlannedObject) -> bool {
        let kind = match self.kind_of(object).await {
            Ok(kind) => kind,
            Err(fate) => return fate == Fate::Gone,
        };
        let Ok(place) = self.place(&kind, namespace, object) else {
            return false;
        };
        match self.eyes.reader.objects.get(place).await {
            Ok(None) => true,
            Ok(Some(found)) => metadata(&found, "uid") != object.uid,
            Err(_) => false,
        }
    }

    /// Finds the kind of an object of the plan, or what that makes of the object.
    async fn kind_of(&self, object: &PlannedObject) -> Result<std::sync::Arc<ServedKind>, Fate> {
        match self.eyes.reader.discovery.find(&reference(object)).await {
            Ok(kind) => Ok(kind),
            Err(KindError::Unknown(_)) => Err(Fate::Gone),
            Err(KindError::Request(error)) => Err(Fate::Failed(error.to_string())),
        }
    }

    /// Returns where an object of the plan is, or why it must not be deleted. Whoever may write the status could have written it there.
    fn place<'a>(
        &self,
        kind: &'a ServedKind,
        namespace: &'a str,
        object: &'a PlannedObject,
    ) -> Result<Place<'a>, String> {
        let within = kind.namespace(namespace);
        if !self.eyes.reader.allows(kind) {
            return Err(format!("the operator may not delete a {}", object.kind));
        }
        if kind.resource.plural != object.resource || kind.resource.kind != object.kind {
            return Err(format!(
                "{} is not what a {} is",
                object.resource, object.kind
            ));
        }
        if within.unwrap_or_default() != object.namespace {
            return Err("it is in another namespace".to_owned());
        }
        let excluded = &self.eyes.reader.settings.excluded_namespaces;
        if is_excluded(object, excluded) {
            return Err("the operator deletes nothing in this namespace".to_owned());
        }
        match object.name.is_empty() || object.uid.is_empty() {
            true => Err("it has no name or no UID".to_owned()),
            false => Ok(Place {
                kind,
                namespace: within,
                name: &object.name,
            }),
        }
    }
}

/// The objects of the plan with these places in it.
fn planned<'a>(
    world: &'a World,
    places: &'a [usize],
) -> impl Iterator<Item = (usize, &'a PlannedObject)> {
    let objects = world
        .progress()
        .map(|it| it.objects.as_slice())
        .unwrap_or_default();
    places
        .iter()
        .filter_map(|place| Some((*place, objects.get(*place)?)))
}

fn reference(object: &PlannedObject) -> KindReference {
    KindReference {
        group: object.group.clone(),
        version: object.version.clone(),
        kind: object.kind.clone(),
    }
}

fn cleaners(resource: &ApiResource) -> ServedKind {
    ServedKind {
        resource: resource.clone(),
        scope: ResourceScope::Namespaced,
    }
}

//! What is done for a Cleaner. Nothing else writes.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use jiff::Timestamp;
use podloom_api::names::cleaner::{FIELD_MANAGER, FINALIZER};
use podloom_api::{CleanerStatus, PlannedObject, PropagationPolicy};
use podloom_cel::{Budget, Failure, Program, Reason, Variables};
use podloom_engine::answer::Patched;
use podloom_engine::error::Error;
use podloom_engine::kind::Context;
use podloom_engine::readable::Answered;
use podloom_engine::write::{MetadataPatch, Target};
use tokio::time::Instant;

use crate::checked::{Checked, KindReference};
use crate::delivery::CloudEvent;
use crate::discovery::{FailureKind, RequestError, ServedKind};
use crate::frozen::{Rules, is_excluded};
use crate::helm::{HelmAction, HelmOutcome, Tools};
use crate::kind::CleanerKind;
use crate::memory::{Attempt, CleanerId, Compiled};
use crate::objects::Place;
use crate::read::{Sight, is_terminating, metadata};
use crate::world::{Action, ActionOutcome, Fate, Programs, StoredCleaner, World};
use crate::{helm, snapshot};

impl CleanerKind {
    /// Executes one action.
    pub(super) async fn execute(
        &self,
        ctx: &Context,
        world: &World,
        action: &Action,
    ) -> Result<ActionOutcome, Error> {
        let id = CleanerId::of(&world.cleaner.metadata);
        match action {
            Action::Unwatch => {
                self.watches.forget(&id);
                Ok(ActionOutcome::Unwatched)
            }
            Action::Remember(looked) => {
                self.memory.looked(&id.uid, looked.clone());
                Ok(ActionOutcome::Remembered(looked.clone()))
            }
            Action::WriteStatus(status) | Action::Commit(status) => {
                self.write_status(ctx, world, status).await
            }
            Action::SetMetadata(patch) => self.set_metadata(ctx, world, patch).await,
            Action::DeleteCleaner => self.delete_cleaner(world).await,
            Action::DeleteTargets(places) => Ok(self.delete_targets(ctx, world, places).await),
            Action::Confirm(places) => Ok(self.confirm(world, places).await),
            Action::Deliver(attempt) => self.deliver(world, &id, attempt),
            Action::Helm(action) => Ok(self.uninstall(ctx, world, action).await),
            Action::Compile(_)
            | Action::Look(_)
            | Action::Evaluate(_)
            | Action::Search(_)
            | Action::Doom => match &world.checked {
                Ok(checked) => self.decide(ctx, world, (&id, checked), action).await,
                // No plan asks for it.
                Err(invalid) => Err(retry("InvalidSpec", invalid.clone())),
            },
        }
    }

    /// Executes an action that finds out whether all conditions are true.
    async fn decide(
        &self,
        ctx: &Context,
        world: &World,
        (id, checked): (&CleanerId, &Checked),
        action: &Action,
    ) -> Result<ActionOutcome, Error> {
        let generation = world.cleaner.metadata.generation;
        match action {
            Action::Compile(programs) => {
                let compiled = self.compile((id, checked)).await;
                let (verdict, kept) = match compiled {
                    Ok(compiled) => (
                        Ok(()),
                        Some(compiled).filter(|_| *programs == Programs::Kept),
                    ),
                    Err(failures) => (verdict(failures)?, None),
                };
                let memory = &self.memory;
                memory.compiled(&id.uid, generation, verdict.clone(), kept);
                Ok(ActionOutcome::Compiled(verdict))
            }
            Action::Look(at) => {
                let sight = self.look(id, checked, *at).await;
                Ok(ActionOutcome::Seen(Box::new(sight)))
            }
            Action::Doom => Ok(match self.doom(id, checked).await {
                Ok(doomed) => ActionOutcome::Doomed(doomed),
                Err(problem) => ActionOutcome::Unusable(problem),
            }),
            Action::Evaluate(at) => self.evaluate(ctx, world, (id, checked), *at).await,
            _ => self.search(world, (id, checked), action).await,
        }
    }

    async fn compile(
        &self,
        (id, checked): (&CleanerId, &Checked),
    ) -> Result<Arc<[Program]>, Vec<Failure>> {
        if checked.conditions.is_empty() {
            return Ok(Arc::from([]));
        }
        let compiled = self.evaluator.compile_all(
            (None, &id.namespace),
            checked.conditions.clone(),
            checked.variable_names(),
        );
        compiled.await.map(Arc::from)
    }

    /// The compiled conditions.
    async fn programs(
        &self,
        world: &World,
        (id, checked): (&CleanerId, &Checked),
    ) -> Result<Arc<[Program]>, Error> {
        let (memory, generation) = (&self.memory, world.cleaner.metadata.generation);
        if let Some(programs) = memory.recall(&id.uid, generation).programs {
            return Ok(programs);
        }
        let Ok(programs) = self.compile((id, checked)).await else {
            // They compiled before, so only a thread is missing.
            return Err(retry(
                "Compile",
                "the conditions cannot be compiled now".to_owned(),
            ));
        };
        let kept = Some(Arc::clone(&programs));
        memory.compiled(&id.uid, generation, Ok(()), kept);
        Ok(programs)
    }

    async fn evaluate(
        &self,
        ctx: &Context,
        world: &World,
        who: (&CleanerId, &Checked),
        at: Timestamp,
    ) -> Result<ActionOutcome, Error> {
        let programs = self.programs(world, who).await?;
        if programs.is_empty() {
            let (evaluation, variables) = Default::default();
            return Ok(ActionOutcome::Evaluated(evaluation, variables));
        }
        let variables = match &world.learned.sight {
            Some(sight) => converted(ctx, Arc::clone(sight)).await,
            None => Ok(Variables::default()),
        };
        let variables = match variables {
            Ok(variables) => Arc::new(variables),
            Err(problem) => return Ok(ActionOutcome::Unusable(problem)),
        };
        let began = std::time::Instant::now();
        let scene = (Arc::clone(&variables), at);
        let namespace = &who.0.namespace;
        let evaluating =
            self.evaluator
                .evaluate_all(namespace, programs, scene, Budget::EVALUATION);
        let evaluation = evaluating.await;
        self.metrics.evaluated(&evaluation, began.elapsed());
        Ok(ActionOutcome::Evaluated(evaluation, variables))
    }

    async fn search(
        &self,
        world: &World,
        who: (&CleanerId, &Checked),
        action: &Action,
    ) -> Result<ActionOutcome, Error> {
        let (Action::Search(at), Some(variables)) = (action, &world.learned.variables) else {
            return Ok(ActionOutcome::Found(None));
        };
        let programs = self.programs(world, who).await?;
        let variables = Arc::clone(variables);
        let searching =
            self.evaluator
                .next_true(&who.0.namespace, programs, (variables, *at), Budget::SEARCH);
        Ok(ActionOutcome::Found(searching.await))
    }

    /// Begins to send the CloudEvent. It is built from the status for each attempt, so nothing of it is kept in memory.
    fn deliver(
        &self,
        world: &World,
        id: &CleanerId,
        attempt: &Attempt,
    ) -> Result<ActionOutcome, Error> {
        let (Some(status), Some(progress)) = (world.status(), world.progress()) else {
            // No plan asks for it.
            return Err(retry("Deliver", "nothing is being deleted".to_owned()));
        };
        let event = CloudEvent::about(&world.cleaner.metadata, status, progress);
        let event = event.map_err(|message| retry("Deliver", message))?;
        let attempt = self.delivery.send(id, attempt, event);
        Ok(ActionOutcome::Delivering(attempt))
    }

    async fn write_status(
        &self,
        ctx: &Context,
        world: &World,
        status: &CleanerStatus,
    ) -> Result<ActionOutcome, Error> {
        let seen = &world.cleaner.metadata;
        let before = world.status();
        let target = Target::of(&ctx.client, &self.resource, seen, FIELD_MANAGER);
        let written = target.write_status(seen, before, status).await?;
        Ok(ActionOutcome::Cleaner(written))
    }

    async fn set_metadata(
        &self,
        ctx: &Context,
        world: &World,
        patch: &MetadataPatch,
    ) -> Result<ActionOutcome, Error> {
        let seen = &world.cleaner.metadata;
        let target = Target::of(&ctx.client, &self.resource, seen, FIELD_MANAGER);
        match target.set_finalizer(seen, patch, FINALIZER).await? {
            Patched::Object(cleaner) => Ok(ActionOutcome::Cleaner(Some(cleaner))),
            Patched::Gone => Ok(ActionOutcome::Cleaner(None)),
            // Until it is there nothing may be deleted, so no status says that the deletion has begun.
            Patched::Rejected(message) => Err(Error::MetadataRefused { message }),
        }
    }
}

/// What the compiler says of conditions that do not compile. Without a thread it says nothing, and must be asked again: its verdict is
/// kept until the spec changes.
fn verdict(failures: Vec<Failure>) -> Result<Compiled, Error> {
    let mut unasked = failures
        .iter()
        .filter(|failure| failure.reason != Reason::CompileError);
    match unasked.next() {
        Some(failure) => Err(retry("Compile", failure.message.clone())),
        None => Ok(Err(failures.into())),
    }
}

/// Converts what conditions see, on a blocking thread: it may be ten thousand objects.
async fn converted(ctx: &Context, sight: Arc<Sight>) -> Result<Variables, super::read::Problem> {
    ctx.blocking
        .run(move || snapshot::variables(&sight.targets))
        .await
}

/// The error for what may go well later.
fn retry(reason: &'static str, message: String) -> Error {
    Error::Retry {
        reason,
        message,
        within: Duration::MAX,
    }
}

/// How many objects are deleted at once.
const PARALLEL: usize = 8;
/// After this time, no deletion begins in a pass: those that have begun may take a while.
const BEGIN_WITHIN: Duration = Duration::from_secs(15);

impl CleanerKind {
    /// Deletes the Cleaner, which stays until our finalizer is removed.
    async fn delete_cleaner(&self, world: &World) -> Result<ActionOutcome, Error> {
        let kind = ServedKind::namespaced((*self.resource).clone());
        let seen = &world.cleaner.metadata;
        let place = Place {
            kind: &kind,
            namespace: seen.namespace.as_deref(),
            name: seen.name.as_deref().unwrap_or_default(),
        };
        let objects = &self.reader.objects;
        let deleted = objects.delete(place, world.uid(), PropagationPolicy::Background);
        match deleted.await {
            Ok(Some(answer)) => {
                // Without a finalizer it is gone, and the answer is no Cleaner.
                let answered = serde_json::from_slice::<Answered<StoredCleaner>>(&answer);
                let cleaner = answered.ok().map(|Answered(cleaner)| Box::new(cleaner));
                Ok(ActionOutcome::Cleaner(cleaner))
            }
            Ok(None) => Ok(ActionOutcome::Cleaner(None)),
            // Another one has its name.
            Err(error) if error.kind == FailureKind::Conflict => Ok(ActionOutcome::Cleaner(None)),
            Err(error) => Err(retry("DeleteCleaner", error.to_string())),
        }
    }

    /// Deletes objects of the plan. A failure of one stops no other.
    async fn delete_targets(
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
        let memory = &self.memory;
        memory.attempted(world.uid(), ctx.clock.now());
        ActionOutcome::Deleted(fates.into_iter().flatten().collect())
    }

    /// Looks which objects of the plan are gone. One that cannot be read may still exist.
    async fn confirm(&self, world: &World, places: &[usize]) -> ActionOutcome {
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
        let objects = &self.reader.objects;
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
            Ok(Some(_)) => Fate::Accepted,
            Ok(None) => Fate::Gone,
            Err(error) if error.kind == FailureKind::Conflict => {
                self.after_conflict(place, object, error.to_string()).await
            }
            Err(error) => self.failed(object, &error).await,
        }
    }

    async fn failed(&self, object: &PlannedObject, error: &RequestError) -> Fate {
        if error.kind == FailureKind::NotServed {
            // The next attempt finds whether the kind has gone.
            self.reader.discovery.forget(&reference(object)).await;
        }
        Fate::Failed(error.to_string())
    }

    /// A conflict means another UID, or that somebody else was faster.
    async fn after_conflict(&self, place: Place<'_>, object: &PlannedObject, said: String) -> Fate {
        match self.reader.objects.get(place).await {
            Ok(None) => Fate::Gone,
            Ok(Some(found)) if metadata(&found, "uid") != object.uid => Fate::Replaced,
            // A namespace cannot be deleted twice. The answer to the first request may be lost.
            Ok(Some(found)) if is_terminating(&found) => Fate::Accepted,
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
        match self.reader.objects.get(place).await {
            Ok(None) => true,
            Ok(Some(found)) => metadata(&found, "uid") != object.uid,
            Err(_) => false,
        }
    }

    /// Finds the kind of an object of the plan, or what that makes of the object.
    async fn kind_of(&self, object: &PlannedObject) -> Result<Arc<ServedKind>, Fate> {
        match self.reader.discovery.find(&reference(object)).await {
            Ok(kind) => Ok(kind),
            Err(error) if error.kind == FailureKind::NotServed => Err(Fate::Gone),
            Err(error) => Err(Fate::Failed(error.to_string())),
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
        if !self.reader.allows(kind) {
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
        let excluded = &self.reader.settings.excluded_namespaces;
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
    KindReference::gvk(&object.group, &object.version, &object.kind)
}

impl CleanerKind {
    /// Executes one action for the Helm release.
    async fn uninstall(&self, ctx: &Context, world: &World, action: &HelmAction) -> ActionOutcome {
        let now = ctx.clock.now();
        if let HelmAction::GiveUp(_) = action {
            self.memory.attempted(world.uid(), now);
        }
        let tools = Tools {
            reader: &self.reader,
            blocking: &ctx.blocking,
            charts: &self.charts,
            now,
        };
        let release = world.progress().and_then(|progress| progress.helm.as_ref());
        let Some(release) = release else {
            // No plan asks for it.
            let trouble = "there is no release to uninstall".to_owned();
            return ActionOutcome::Helm(HelmOutcome::Trouble(trouble));
        };
        ActionOutcome::Helm(helm::act(tools, &world.helm(release), action).await)
    }
}

#[cfg(test)]
mod tests;

//! What is done for a Cleaner. Nothing else writes.

mod delete;
mod uninstall;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::core::ApiResource;
use podloom_api::CleanerStatus;
use podloom_api::names::cleaner::{FIELD_MANAGER, FINALIZER};
use podloom_cel::{Budget, Evaluation, Evaluator, Failure, Program, Reason, Variables};
use tokio::sync::Semaphore;

use super::action::{Action, ActionOutcome, Programs};
use super::checked::Checked;
use super::delivery::{CloudEvent, Delivery, Shot};
use super::look::Eyes;
use super::memory::Compiled;
use super::metrics::CleanerMetrics;
use super::sight::Sight;
use super::variables;
use super::who::CleanerId;
use super::world::World;
use podloom_engine::answer::Patched;
use podloom_engine::error::Error;
use podloom_engine::kind::Context;
use podloom_engine::write::{MetadataPatch, Target};

/// What acts for Cleaners. Cheap to clone.
#[derive(Clone)]
pub(super) struct Hands {
    pub(super) resource: Arc<ApiResource>,
    pub(super) eyes: Eyes,
    pub(super) evaluator: Evaluator,
    pub(super) delivery: Delivery,
    /// How much charts that are being read may take.
    pub(super) charts: Arc<Semaphore>,
    pub(super) metrics: CleanerMetrics,
}

impl Hands {
    /// Forgets a Cleaner that is gone.
    pub(super) fn forget(&self, id: &CleanerId) {
        self.eyes.forget(id);
        self.delivery.forget(&id.uid);
    }

    /// Executes one action.
    pub(super) async fn act(
        &self,
        ctx: &Context,
        world: &World,
        action: &Action,
    ) -> Result<ActionOutcome, Error> {
        let id = CleanerId::of(&world.cleaner.metadata);
        match action {
            Action::Unwatch => {
                self.eyes.watches.forget(&id);
                Ok(ActionOutcome::Unwatched)
            }
            Action::Remember(looked) => {
                self.eyes.memory.looked(&id.uid, looked.clone());
                Ok(ActionOutcome::Remembered(looked.clone()))
            }
            Action::WriteStatus(status) | Action::Commit(status) => {
                self.write_status(ctx, world, status).await
            }
            Action::SetMetadata(patch) => self.set_metadata(ctx, world, patch).await,
            Action::DeleteCleaner => self.delete_cleaner(world).await,
            Action::DeleteTargets(places) => Ok(self.delete_targets(ctx, world, places).await),
            Action::Confirm(places) => Ok(self.confirm(world, places).await),
            Action::Deliver(shot) => self.deliver(world, &id, shot),
            Action::Helm(action) => Ok(self.uninstall(ctx, world, action).await),
            Action::Compile(_)
            | Action::Look(_)
            | Action::Evaluate(_)
            | Action::Search(_)
            | Action::Doom => match &world.checked {
                Ok(checked) => self.decide(ctx, world, (&id, checked), action).await,
                // No plan asks for it.
                Err(invalid) => Err(retry("InvalidSpec", invalid.to_string())),
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
                        Compiled::Fine,
                        Some(compiled).filter(|_| *programs == Programs::Kept),
                    ),
                    Err(failures) => (verdict(failures)?, None),
                };
                let memory = &self.eyes.memory;
                memory.compiled(&id.uid, generation, verdict.clone(), kept);
                Ok(ActionOutcome::Compiled(verdict))
            }
            Action::Look(at) => {
                let sight = self.eyes.look(id, checked, *at).await;
                Ok(ActionOutcome::Seen(Box::new(sight)))
            }
            Action::Doom => Ok(match self.eyes.doom(id, checked).await {
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
        let (memory, generation) = (&self.eyes.memory, world.cleaner.metadata.generation);
        if let Some(programs) = memory.programs(&id.uid, generation) {
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
        memory.compiled(&id.uid, generation, Compiled::Fine, kept);
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
        let variables = match &world.learned.sight {
            Some(sight) if !programs.is_empty() => converted(ctx, Arc::clone(sight)).await,
            _ => Ok(Variables::default()),
        };
        let variables = match variables {
            Ok(variables) => Arc::new(variables),
            Err(problem) => return Ok(ActionOutcome::Unusable(problem)),
        };
        let evaluation = match programs.is_empty() {
            true => Evaluation::default(),
            false => {
                let began = std::time::Instant::now();
                let seen = Arc::clone(&variables);
                let evaluating = self.evaluator.evaluate_all(
                    &who.0.namespace,
                    programs,
                    (seen, at),
                    Budget::EVALUATION,
                );
                let evaluation = evaluating.await;
                self.metrics.evaluated(&evaluation, began.elapsed());
                evaluation
            }
        };
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
    fn deliver(&self, world: &World, id: &CleanerId, shot: &Shot) -> Result<ActionOutcome, Error> {
        let (Some(status), Some(progress)) = (world.status(), world.progress()) else {
            // No plan asks for it.
            return Err(retry("Deliver", "nothing is being deleted".to_owned()));
        };
        let event = CloudEvent::about(&world.cleaner.metadata, status, progress);
        let event = event.map_err(|message| retry("Deliver", message))?;
        let begun = self.delivery.send(id, shot, event);
        if !self.eyes.memory.knows(&id.uid) {
            // It has gone meanwhile, and nothing else would forget the attempt.
            self.delivery.forget(&id.uid);
        }
        Ok(ActionOutcome::Delivering(begun))
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
        None => Ok(Compiled::Failed(failures.into())),
    }
}

/// Converts what conditions see, on a blocking thread: it may be ten thousand objects.
async fn converted(ctx: &Context, sight: Arc<Sight>) -> Result<Variables, super::sight::Problem> {
    ctx.blocking
        .run(move || variables::of(&sight.targets))
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

#[cfg(test)]
mod tests;

//! Reads and writes the Deployment.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use podloom_api::names::annotation;
use podloom_engine::answer::{Deleted, Patched, Stored};
use podloom_engine::error::{Attempt, Error};
use podloom_engine::kind::{Context, Kind};
use podloom_engine::write::{Deletion, Target};
use podloom_mutation::{PodRejection, PodRequest, remarks};
use serde_json::json;

use super::super::action::{ActionOutcome, Apply, Why};
use super::super::adopt::takeover;
use super::super::deployment::{annotation_of, prune};
use super::super::kind::ExposeKind;
use super::super::naming;
use super::super::render::{Tunnel, finish};
use super::super::verdict::judge;
use super::super::world::{Problem, Rendered, Try, Turn, World};
use super::{is_passing, unanswered};

const READ: Attempt = Attempt::new("ReadDeployment", "read Deployment");
const ADOPT: Attempt = Attempt::new("AdoptDeployment", "adopt Deployment");
const APPLY: Attempt = Attempt::new("ApplyDeployment", "apply Deployment");
const DELETE: Attempt = Attempt::new("DeleteDeployment", "delete Deployment");

impl ExposeKind {
    pub(super) async fn read_deployment(
        &self,
        ctx: &Context,
        world: &World,
    ) -> Result<ActionOutcome, Error> {
        let name = naming::deployment_name(world.name());
        let target = self.deployment(ctx, world, &name);
        let found = target.read::<Deployment>(READ).await?;
        let found = found.map(|mut found| {
            prune(&mut found);
            Arc::new(found)
        });
        Ok(ActionOutcome::Deployment(found))
    }

    /// Makes the fields that the operator before us wrote our own, so that a later apply can remove them.
    pub(super) async fn adopt(&self, ctx: &Context, world: &World) -> Result<ActionOutcome, Error> {
        let name = naming::deployment_name(world.name());
        let target = self.deployment(ctx, world, &name);
        let Some(found) = target.read::<Deployment>(READ).await? else {
            return Ok(ActionOutcome::Deployment(None));
        };
        let Some(fields) = takeover(&found.metadata, world.uid().unwrap_or_default()) else {
            return Ok(ActionOutcome::Adopted);
        };
        let patch = json!({
            "metadata": {
                "uid": found.metadata.uid,
                "resourceVersion": found.metadata.resource_version,
                "managedFields": fields,
            },
        });
        match target.patch::<Deployment>(patch, ADOPT).await? {
            Patched::Object(_) => Ok(ActionOutcome::Adopted),
            Patched::Gone => Ok(ActionOutcome::Deployment(None)),
            Patched::Rejected(sentence) => {
                let problem = format!("Deployment {name} cannot be adopted: {sentence}");
                let tried = self.tried(world);
                Ok(self.refused(ctx, world, &tried, Problem::Deployment(problem)))
            }
        }
    }

    /// Passes the template through the chain.
    pub(super) async fn mutate(&self, ctx: &Context, world: &World, tried: &Try) -> ActionOutcome {
        let refused = |problem| {
            self.give_turn_back(world);
            self.refused(ctx, world, tried, problem)
        };
        let Some(tunnel) = judge(world, &self.settings).tunnel else {
            // The plan is made from the same world.
            return refused(Problem::Failed("there is nothing to render".to_owned()));
        };
        let request = self.request(&tunnel);
        let mutated = match self.tunnels.mutator.mutate(tunnel.pod(), request).await {
            Ok(mutated) => mutated,
            Err(rejected) => return refused(problem(rejected.rejection)),
        };
        match finish(&tunnel, &mutated) {
            Ok(finished) => ActionOutcome::Rendered(Box::new(Rendered {
                input: tunnel.input_hash,
                finished,
                notes: remarks(&mutated.runs),
            })),
            Err(problem) => refused(Problem::ResultInvalid(problem.to_string())),
        }
    }

    pub(super) fn take_turn(&self, world: &World, tried: &Try) -> ActionOutcome {
        let deployment = world.own_deployment();
        let may = deployment.is_none_or(|found| self.tunnels.rolls.take(&found.metadata));
        if !may {
            let uid = world.uid().unwrap_or_default();
            self.tunnels.memory.queued(uid, tried.clone());
        }
        ActionOutcome::Turn(if may { Turn::Now } else { Turn::Later })
    }

    pub(super) async fn apply(
        &self,
        ctx: &Context,
        world: &World,
        apply: &Apply,
    ) -> Result<ActionOutcome, Error> {
        let name = naming::deployment_name(world.name());
        let mut object = apply.object.clone();
        if let Some(uid) = &apply.uid {
            object["metadata"]["uid"] = json!(uid);
        }
        let target = self.deployment(ctx, world, &name);
        // The plugins took time, and an apply would take over what somebody else created meanwhile.
        if apply.why == Why::Missing {
            let found = self.read_deployment(ctx, world).await?;
            if !matches!(found, ActionOutcome::Deployment(None)) {
                return Ok(found);
            }
        }
        let stored = match target.apply::<Deployment>(&object, APPLY).await {
            Ok(stored) => stored,
            Err(error) => {
                self.give_turn_back(world);
                return Err(error);
            }
        };
        let sentence = match stored {
            Stored::Object(applied) => return Ok(self.applied(ctx, world, apply, *applied)),
            Stored::Exists => {
                self.give_turn_back(world);
                return self.read_deployment(ctx, world).await;
            }
            // It may have been written, and may roll, so it keeps its turn.
            Stored::Unanswered(sentence) => return Err(unanswered(sentence)),
            Stored::Rejected { code, sentence } if is_passing(code, &sentence) => {
                self.give_turn_back(world);
                return Err(unanswered(sentence));
            }
            Stored::Invalid(sentence) | Stored::Rejected { sentence, .. } => sentence,
        };
        self.give_turn_back(world);
        let problem = format!("the API server rejected Deployment {name}: {sentence}");
        Ok(self.refused(ctx, world, &apply.tried, Problem::Deployment(problem)))
    }

    fn applied(
        &self,
        ctx: &Context,
        world: &World,
        apply: &Apply,
        mut applied: Deployment,
    ) -> ActionOutcome {
        prune(&mut applied);
        let tunnels = &self.tunnels;
        // Also of a write for another cause: the answer to the one before may have been lost.
        tunnels.rolls.wrote(&applied.metadata);
        let applied = Arc::new(applied);
        let uid = world.uid().unwrap_or_default();
        tunnels.memory.wrote_deployment(uid, Arc::clone(&applied));
        tunnels.memory.succeeded(uid, &apply.tried);
        let now = ctx.clock.now();
        tunnels.memory.rolls(uid, applied.metadata.generation, now);
        if apply.why == Why::Drift {
            tunnels.memory.repaired(uid, now);
        }
        ActionOutcome::Applied(applied)
    }

    pub(super) async fn delete_deployment(
        &self,
        ctx: &Context,
        world: &World,
        uid: &str,
    ) -> Result<ActionOutcome, Error> {
        let name = naming::deployment_name(world.name());
        let target = self.deployment(ctx, world, &name);
        Ok(
            match target.delete(uid, Deletion::Graceful, DELETE).await? {
                Deleted::Asked => ActionOutcome::DeploymentDeleted,
                Deleted::Gone => ActionOutcome::DeploymentGone,
            },
        )
    }

    /// Gives back a turn that was taken in this pass and not used.
    fn give_turn_back(&self, world: &World) {
        if let (Some(Turn::Now), Some(found)) = (world.learned.turn, world.own_deployment()) {
            self.tunnels.rolls.give_back(&found.metadata);
        }
    }

    /// Gives a turn back if nothing has to roll: meanwhile the chain went back to the one that runs.
    pub(crate) fn give_needless_turn_back(&self, world: &mut World) {
        let found = world.own_deployment();
        let runs = found.and_then(|found| annotation_of(&found.metadata, annotation::CHAIN));
        if runs.is_some() && runs == world.chain.as_deref() {
            self.give_turn_back(world);
            world.learned.turn = None;
        }
    }

    fn tried(&self, world: &World) -> Try {
        let tunnel = judge(world, &self.settings).tunnel;
        Try::Tunnel {
            input: tunnel.map(|tunnel| tunnel.input_hash).unwrap_or_default(),
            chain: world.chain.clone(),
            namespace: world.namespace_version.clone(),
        }
    }

    /// What plugins may ask for.
    fn request(&self, tunnel: &Tunnel) -> PodRequest {
        let request = tunnel.request();
        let about = self.caches.namespaces.get(&request.namespace);
        request.of_namespace(about)
    }

    fn deployment<'a>(&'a self, ctx: &'a Context, world: &'a World, name: &'a str) -> Target<'a> {
        Target {
            client: &ctx.client,
            resource: &self.resources.deployment,
            namespace: world.expose.metadata.namespace.as_deref(),
            name,
            field_manager: Self::TRAITS.field_manager,
        }
    }
}

/// Why the chain rejected a template.
fn problem(rejection: PodRejection) -> Problem {
    match rejection {
        PodRejection::Denied(message) => Problem::Denied(message),
        PodRejection::Broken(message)
        | PodRejection::Overdue(message)
        | PodRejection::Unread(message)
        | PodRejection::Invalid(message)
        | PodRejection::Forbidden(message) => Problem::Failed(message),
    }
}

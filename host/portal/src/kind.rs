//! The kind PortalExpose: what the engine needs to run its controller.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Secret, Service};
use kube::core::{ApiResource, ObjectMeta, PartialObjectMeta};
use kube::runtime::reflector::Store;
use podloom_api::names::portal;
use podloom_api::{AppliedTunnel, PortalExposeObject, TunnelClassObject};
use podloom_engine::backoff::Waits;
use podloom_engine::error::Error;
use podloom_engine::events::Notice;
use podloom_engine::kind::{Context, Done, Kind, Remains, Source, Traits};
use podloom_engine::namespaces::Namespaces;
use podloom_engine::optional::OptionalCache;
use podloom_engine::plan::Plan;
use podloom_engine::readable::Readable;
use podloom_mutation::PodMutator;

use super::action::{Action, ActionOutcome, Apply, Why};
use super::memory::Memory;
use super::metrics::CONTROLLER;
use super::plan::plan;
use super::relays::Relays;
use super::rivals::Rivals;
use super::rolls::Rolls;
use super::world::{SeenDeployment, Settings, World};

/// A Secret in a cache, without its values.
pub(super) type SecretMeta = PartialObjectMeta<Secret>;

/// What the controller of PortalExposes needs besides the [`Context`].
pub(super) struct ExposeKind {
    pub(super) resources: Resources,
    pub(super) caches: Caches,
    pub(super) tunnels: Tunnels,
    pub(super) settings: Settings,
}

/// What is written.
pub(super) struct Resources {
    pub(super) expose: Arc<ApiResource>,
    pub(super) deployment: ApiResource,
    pub(super) secret: ApiResource,
}

/// What is known of the cluster.
pub(super) struct Caches {
    pub(super) exposes: Store<Readable<PortalExposeObject>>,
    pub(super) classes: Store<Readable<TunnelClassObject>>,
    pub(super) services: Store<Service>,
    pub(super) deployments: Store<Deployment>,
    pub(super) secrets: OptionalCache<SecretMeta>,
    pub(super) namespaces: Namespaces,
}

/// What the controllers in all scopes share.
#[derive(Clone)]
pub(super) struct Tunnels {
    pub(super) mutator: Arc<dyn PodMutator>,
    pub(super) relays: Relays,
    pub(super) rolls: Rolls,
    pub(super) memory: Memory,
    pub(super) rivals: Rivals,
}

impl Kind for ExposeKind {
    type Object = PortalExposeObject;
    type World = World;
    type Action = Action;
    type Outcome = ActionOutcome;

    const TRAITS: Traits = Traits {
        finalizer: Some(portal::FINALIZER),
        // Two of them may be statuses: Failed is left for Pending first.
        steps: 20,
        backoff: Waits {
            first: Duration::from_millis(5),
            longest: Duration::from_mins(5),
        },
        ..Traits::of("PortalExpose", CONTROLLER, portal::FIELD_MANAGER)
    };

    async fn observe(
        &self,
        _: &Context,
        expose: &PortalExposeObject,
        _: Source,
    ) -> Result<World, Error> {
        Ok(self.look_around(expose))
    }

    fn plan(&self, world: &World, now: Timestamp) -> Plan<Action> {
        plan(world, &self.settings, now)
    }

    async fn act(
        &self,
        ctx: &Context,
        world: &World,
        action: &Action,
    ) -> Result<ActionOutcome, Error> {
        self.carry_out(ctx, world, action).await
    }

    fn report(&self, done: &Done<'_, Self>, notices: Vec<Notice>) -> Vec<Notice> {
        log(done);
        match (done.action, done.outcome) {
            // Nothing was written.
            (
                _,
                ActionOutcome::Gone
                | ActionOutcome::Refused(_)
                | ActionOutcome::MetadataRejected(_),
            ) => Vec::new(),
            (Action::Apply(apply), ActionOutcome::Applied(answered))
                if !changes(apply, done.world, answered) =>
            {
                Vec::new()
            }
            (Action::Apply(_), ActionOutcome::Deployment(_)) => Vec::new(),
            _ => notices,
        }
    }

    fn learn(&self, world: &mut World, outcome: ActionOutcome) -> Remains {
        let remains = self.learn_outcome(world, outcome);
        self.forget_if_gone(&world.expose);
        remains
    }

    fn metadata(world: &World) -> &ObjectMeta {
        &world.expose.metadata
    }
}

impl ExposeKind {
    fn learn_outcome(&self, world: &mut World, outcome: ActionOutcome) -> Remains {
        match outcome {
            ActionOutcome::Marked(expose) | ActionOutcome::StatusWritten(expose) => {
                let remains = Remains::of(&expose.metadata);
                world.expose = Arc::from(expose);
                if world.is_deleted() && !world.has_finalizer() {
                    self.forget(world);
                }
                return remains;
            }
            ActionOutcome::Gone => {
                self.forget(world);
                return Remains::Unknown;
            }
            ActionOutcome::MetadataRejected(sentence) => {
                world.learned.metadata_rejected = Some(sentence);
            }
            ActionOutcome::Identity {
                identity,
                is_written,
            } => {
                world.identity = identity;
                world.learned.is_identity_written |= is_written;
            }
            ActionOutcome::Deployment(found) => {
                world.deployment = found.map_or(SeenDeployment::Absent, SeenDeployment::Found);
                self.look_at_relays(world);
            }
            ActionOutcome::Adopted => world.learned.is_adopted = true,
            ActionOutcome::Rendered(rendered) => {
                // It went through the newest chain, which may have come since the pass began.
                if rendered.finished.chain.is_some() {
                    world.chain.clone_from(&rendered.finished.chain);
                }
                world.learned.finished = Some(*rendered);
                self.give_needless_turn_back(world);
            }
            ActionOutcome::Turn(turn) => world.learned.turn = Some(turn),
            ActionOutcome::Applied(deployment) => {
                let finished = world.learned.finished.as_ref().map(|it| &it.finished);
                world.learned.applied = finished.map(|finished| AppliedTunnel {
                    generation: deployment.metadata.generation,
                    template_hash: Some(finished.template_hash.clone()),
                    chain_digest: finished.chain.clone(),
                });
                if let (Some(uid), Some(applied)) = (world.uid(), &world.learned.applied) {
                    self.tunnels.memory.has_applied(uid, applied.clone());
                }
                world.deployment = SeenDeployment::Found(deployment);
                self.look_at_relays(world);
            }
            ActionOutcome::Refused(refusal) => world.learned.refused = Some(refusal),
            ActionOutcome::DeploymentDeleted => {
                world.learned.is_deployment_deleted = true;
                // Perhaps it is gone already.
                world.deployment = SeenDeployment::Unseen;
            }
            ActionOutcome::DeploymentGone => world.deployment = SeenDeployment::Absent,
        }
        Remains::Object
    }
}

/// Whether a Deployment was created, or its generation is another than before.
fn changes(apply: &Apply, world: &World, answered: &Deployment) -> bool {
    let before = world.own_deployment();
    let before = before.and_then(|before| before.metadata.generation);
    apply.why == Why::Missing || before != answered.metadata.generation
}

/// Logs what changed.
fn log(done: &Done<'_, ExposeKind>) {
    let ObjectMeta {
        namespace, name, ..
    } = &done.world.expose.metadata;
    match (done.action, done.outcome) {
        (Action::Apply(apply), ActionOutcome::Applied(answered))
            if changes(apply, done.world, answered) =>
        {
            tracing::info!(namespace, name, why = ?apply.why, "tunnel applied");
        }
        (
            Action::CreateIdentity,
            ActionOutcome::Identity {
                is_written: true, ..
            },
        ) => {
            tracing::info!(namespace, name, "identity created");
        }
        (Action::WriteStatus(wanted), ActionOutcome::StatusWritten(_)) => {
            let phase = |phase: Option<podloom_api::PortalPhase>| phase.map(|it| it.as_str());
            let before = phase(done.world.status().and_then(|status| status.phase));
            let now = phase(wanted.phase);
            if before != now {
                tracing::info!(namespace, name, phase = now, "tunnel changes its phase");
            }
        }
        (Action::SetMetadata(_), ActionOutcome::Marked(_)) if done.world.is_deleted() => {
            tracing::info!(namespace, name, "tunnel deleted");
        }
        _ => {}
    }
}

#[cfg(test)]
pub(super) mod tests;

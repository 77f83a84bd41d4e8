//! What the engine drives, and the world around a provider.

use std::marker::PhantomData;

use jiff::Timestamp;
use kube::core::ObjectMeta;
use podloom_api::InfrastructureProviderObject;
use podloom_api::names::infrastructure::condition;

use super::world::{Action, Outcome, ProviderParts, World};
use super::{act, plan};
use crate::engine::error::Error;
use crate::engine::kind::{Context, Kind, Remains, Source, Traits};
use crate::engine::plan::Plan;
use crate::infrastructure::level::Level;
use crate::infrastructure::probe::Basis;
use crate::infrastructure::resolve::{Key, OwnerUse, SecretUse, endpoint};

/// The controller of the providers of one level.
pub(crate) struct ProviderKind<L> {
    /// What it needs besides the [`Context`].
    pub(crate) parts: ProviderParts,
    /// The level.
    pub(crate) level: PhantomData<L>,
}

impl<L: Level> Kind for ProviderKind<L> {
    type Object = InfrastructureProviderObject;
    type World = World;
    type Action = Action;
    type Outcome = Outcome;

    const TRAITS: Traits = L::PROVIDER;

    async fn observe(
        &self,
        _: &Context,
        provider: &InfrastructureProviderObject,
        _: Source,
    ) -> Result<World, Error> {
        let parts = &self.parts;
        let metadata = &provider.metadata;
        let uid = metadata.uid.as_deref().unwrap_or_default();
        let endpoint = endpoint(provider, &parts.caches);
        let owner = endpoint.as_ref().map(|endpoint| &endpoint.owner);
        let uses = owner.into_iter().flat_map(OwnerUse::all);
        let secrets = uses.map(SecretUse::secret);
        Ok(World {
            users: parts.known.users_of_provider(&Key::of(metadata)),
            users_from: Source::Cache,
            basis: Basis {
                generations: vec![metadata.generation],
                secrets: secrets
                    .map(|secret| (secret.clone(), parts.metas.version(&secret)))
                    .collect(),
                is_provider_ready: false,
            },
            probe: parts.probes.get(uid),
            said: parts.said.of(uid),
            endpoint,
            provider: provider.clone(),
            refused: None,
        })
    }

    fn plan(&self, world: &World, now: Timestamp) -> Plan<Action> {
        plan::plan(world, now)
    }

    async fn act(&self, ctx: &Context, world: &World, action: &Action) -> Result<Outcome, Error> {
        act::act(&self.parts, ctx, world, action).await
    }

    fn learn(&self, world: &mut World, outcome: Outcome) -> Remains {
        match outcome {
            Outcome::Provider(None) => return Remains::Unknown,
            Outcome::Provider(Some(provider)) => {
                world.provider = *provider;
                // Users that were read before a write say nothing about what came since.
                world.users_from = Source::Cache;
            }
            Outcome::Refused(message) => world.refused = Some(message),
            Outcome::Users(users) => {
                world.users = users;
                world.users_from = Source::Live;
            }
            Outcome::Probed(probe) => world.probe = Some(probe),
        }
        Remains::of(&world.provider.metadata)
    }

    fn metadata(world: &World) -> &ObjectMeta {
        &world.provider.metadata
    }
}

/// Returns whether the status of a provider says that it is ready, as conditions write it.
pub(crate) fn readiness(provider: &InfrastructureProviderObject) -> Option<&str> {
    let status = provider.status.as_ref()?;
    let mut conditions = status.conditions.iter().flatten();
    let ready = conditions.find(|it| it.type_ == condition::READY)?;
    Some(&ready.status)
}

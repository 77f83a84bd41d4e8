//! What the engine drives, and the world around a Cloud.

use std::marker::PhantomData;

use jiff::Timestamp;
use kube::core::ObjectMeta;
use podloom_api::names::infrastructure::{condition, reason};
use podloom_api::{CloudKind as ReferenceKind, CloudObject, CloudRef};

use super::world::{Action, CloudParts, Outcome, ProviderSays, World};
use super::{act, plan};
use crate::engine::error::Error;
use crate::engine::kind::{Context, Kind, Remains, Source, Traits};
use crate::engine::plan::Plan;
use crate::infrastructure::level::Level;
use crate::infrastructure::probe::{Basis, Found};
use crate::infrastructure::resolve::{CachedProvider, Key, SecretUse, of_cloud, provider_key};

/// The controller of the Clouds of one level.
pub(crate) struct CloudKind<L> {
    /// What it needs besides the [`Context`].
    pub(crate) parts: CloudParts,
    /// The level.
    pub(crate) level: PhantomData<L>,
}

impl<L: Level> Kind for CloudKind<L> {
    type Object = CloudObject;
    type World = World;
    type Action = Action;
    type Outcome = Outcome;

    const TRAITS: Traits = L::CLOUD;

    async fn observe(&self, _: &Context, cloud: &CloudObject, _: Source) -> Result<World, Error> {
        let parts = &self.parts;
        let metadata = &cloud.metadata;
        let uid = metadata.uid.as_deref().unwrap_or_default();
        let backend = of_cloud(&reference(metadata), cloud, &parts.caches);
        let provider = provider_key(metadata.namespace.as_deref(), &cloud.spec.provider_ref);
        let cached = parts.caches.providers.find(&provider);
        let says = ProviderSays {
            ready: says(cached.as_deref()),
            clouds: parts.known.clouds_of_provider(&provider),
        };
        let uses = backend.as_ref().map(|backend| backend.secrets.as_slice());
        let secrets = uses.unwrap_or_default().iter().map(SecretUse::secret);
        let generation_of = |it: &CachedProvider| kube::Resource::meta(it).generation;
        Ok(World {
            users: parts.known.users_of_cloud(&Key::of(metadata)),
            users_from: Source::Cache,
            basis: Basis {
                generations: vec![
                    metadata.generation,
                    cached.as_deref().and_then(generation_of),
                ],
                secrets: secrets
                    .map(|secret| (secret.clone(), parts.metas.version(&secret)))
                    .collect(),
                is_provider_ready: says.ready == Found::Yes,
            },
            probe: parts.probes.get(uid),
            said: parts.said.of(uid),
            provider: says,
            backend,
            cloud: cloud.clone(),
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
            Outcome::Cloud(None) => return Remains::Unknown,
            Outcome::Cloud(Some(cloud)) => {
                world.cloud = *cloud;
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
        Remains::of(&world.cloud.metadata)
    }

    fn metadata(world: &World) -> &ObjectMeta {
        &world.cloud.metadata
    }
}

/// How Clusters name a Cloud.
fn reference(cloud: &ObjectMeta) -> CloudRef {
    CloudRef {
        kind: match cloud.namespace {
            Some(_) => ReferenceKind::Cloud,
            None => ReferenceKind::GlobalCloud,
        },
        name: cloud.name.clone().unwrap_or_default(),
    }
}

/// Whether the status of a provider says that it is ready.
fn says(provider: Option<&CachedProvider>) -> Found {
    use reason::PROVIDER_NOT_READY;
    let status = provider.and_then(|it| it.0.as_ref().ok()?.status.as_ref());
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let mut conditions = conditions.unwrap_or_default().iter();
    let ready = conditions.find(|it| it.type_ == condition::READY);
    match ready {
        Some(ready) if ready.status == "True" => Found::Yes,
        Some(ready) if ready.status == "False" => {
            Found::No(PROVIDER_NOT_READY, ready.message.clone())
        }
        _ => Found::Unclear(
            PROVIDER_NOT_READY,
            "it is not known yet whether the provider is ready".to_owned(),
        ),
    }
}

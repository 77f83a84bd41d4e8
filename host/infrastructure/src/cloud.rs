//! The kinds Cloud and GlobalCloud: whether their provider and Secrets exist, and whether the cloud answers.
//!
//! Whether the provider's Infrastructure Manager answers is read in the provider's status. The cloud itself is asked for its quotas, and
//! the more Clouds a provider has, the less often. That is information: nothing of it keeps Clusters from being created.

mod probe;
mod status;

use std::collections::HashSet;

use jiff::Timestamp;
use kube::core::ObjectMeta;
use podloom_api::names::infrastructure::{condition, reason};
use podloom_api::{CloudKind, CloudObject, CloudRef, CloudSpec, CloudStatus};

use super::in_use::{Known, Live, Users};
use super::level::{Global, InNamespaces, Level, guarded};
use super::probe::{Basis, Found, next_quotas, uids};
use super::probed::{Parts, Probed, World};
use super::resolve::{Backend, CachedProvider, Key, Unresolved, of_cloud, provider_key};
use podloom_engine::error::Error;
use podloom_engine::events::Notice;
use podloom_engine::kind::{ResourceScope, Traits};

/// Clouds of both levels.
pub(crate) struct Clouds;

impl Level<Clouds> for InNamespaces {
    const TRAITS: Traits = guarded("Cloud", "cloud", ResourceScope::Namespaced);
}

impl Level<Clouds> for Global {
    const TRAITS: Traits = guarded("GlobalCloud", "globalcloud", ResourceScope::Cluster);
}

/// What is around a Cloud.
pub(crate) struct CloudAround {
    backend: Result<Backend, Unresolved>,
    provider: ProviderSays,
}

/// What a probe of a Cloud found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CloudFound {
    /// What of its Secrets, or of the provider's, is missing.
    pub(crate) missing: Option<Unresolved>,
    /// Whether the cloud says its quotas.
    pub(crate) quotas: Found,
}

/// What the status of a Cloud's provider says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProviderSays {
    /// Whether it is ready.
    pub(crate) ready: Found,
    /// How many Clouds name it.
    pub(crate) clouds: usize,
}

impl Probed for Clouds {
    type Spec = CloudSpec;
    type Status = CloudStatus;
    type Around = CloudAround;
    type Found = CloudFound;

    fn around(parts: &Parts<Self>, cloud: &CloudObject) -> (CloudAround, Basis) {
        let metadata = &cloud.metadata;
        let backend = of_cloud(&reference(metadata), cloud, &parts.caches);
        let provider = provider_key(metadata.namespace.as_deref(), &cloud.spec.provider_ref);
        let cached = parts.caches.providers.find(&provider);
        let provider = ProviderSays {
            ready: says(cached.as_deref()),
            clouds: parts.known.clouds_of_provider(&provider),
        };
        let generation_of = |it: &CachedProvider| kube::Resource::meta(it).generation;
        let basis = Basis {
            generations: vec![
                metadata.generation,
                cached.as_deref().and_then(generation_of),
            ],
            secrets: parts.versions(backend.iter().flat_map(|backend| &backend.secrets)),
            is_provider_ready: provider.ready == Found::Yes,
        };
        (CloudAround { backend, provider }, basis)
    }

    fn leads_somewhere(around: &CloudAround) -> bool {
        around.backend.is_ok()
    }

    fn status(world: &World<Self>, now: Timestamp) -> (CloudStatus, Vec<Notice>) {
        status::status(world, now)
    }

    async fn probe(parts: &Parts<Self>, world: &World<Self>) -> Result<CloudFound, Error> {
        probe::probe(parts, world).await
    }

    fn next(world: &World<Self>, found: &CloudFound, now: Timestamp) -> Timestamp {
        next_quotas(now, world.around.provider.clouds, found.missing.is_none())
    }

    fn users(known: &Known, cloud: &Key) -> Users {
        known.users_of_cloud(cloud)
    }

    async fn live_users(live: &Live, cloud: &Key) -> Result<Users, Error> {
        live.users_of_cloud(cloud).await
    }

    fn uids(known: &Known) -> HashSet<String> {
        uids(&known.clouds())
    }
}

/// How Clusters name a Cloud.
fn reference(cloud: &ObjectMeta) -> CloudRef {
    CloudRef {
        kind: match cloud.namespace {
            Some(_) => CloudKind::Cloud,
            None => CloudKind::GlobalCloud,
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

#[cfg(test)]
mod tests;

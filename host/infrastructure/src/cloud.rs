//! The kinds Cloud and GlobalCloud: whether their provider and Secrets exist, and whether the cloud answers.
//!
//! Whether the provider's Infrastructure Manager answers is read in the provider's status. The cloud itself is asked for its quotas, and
//! the more Clouds a provider has, the less often. That is information: nothing of it keeps Clusters from being created.

use std::collections::HashSet;

use jiff::Timestamp;
use kube::core::ObjectMeta;
use podloom_api::names::infrastructure::{condition, reason};
use podloom_api::{CloudKind, CloudObject, CloudRef, CloudSpec, CloudState, CloudStatus};
use podloom_engine::conditions::conditions;
use podloom_engine::error::Error;
use podloom_engine::events::Notice;
use podloom_engine::kind::{ResourceScope, Traits};

use super::im::{Call, CloudLogin, Failure, FailureKind};
use super::in_use::{Known, Live, Users};
use super::probed::{
    Basis, Found, Global, InNamespaces, Level, Parts, Probed, World, changed_to_false, guarded,
    next_quotas, uids,
};
use super::resolve::{Backend, CachedProvider, Key, Trouble, of_cloud, provider_key};
use super::secrets::TargetError;

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
    backend: Result<Backend, Trouble>,
    /// Whether the status of its provider says that it is ready.
    ready: Found,
    /// How many Clouds name the provider.
    clouds: usize,
}

/// What a probe of a Cloud found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CloudFound {
    /// What of its Secrets, or of the provider's, is missing.
    pub(crate) missing: Option<Trouble>,
    /// Whether the cloud says its quotas.
    pub(crate) quotas: Found,
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
        let around = CloudAround {
            backend,
            ready: says(cached.as_deref()),
            clouds: parts.known.clouds_of_provider(&provider),
        };
        let generation_of = |it: &CachedProvider| kube::Resource::meta(it).generation;
        let basis = Basis {
            generations: vec![
                metadata.generation,
                cached.as_deref().and_then(generation_of),
            ],
            secrets: parts.versions(around.backend.iter().flat_map(|it| &it.secrets)),
            is_provider_ready: around.ready == Found::Yes,
        };
        (around, basis)
    }

    fn leads_somewhere(around: &CloudAround) -> bool {
        around.backend.is_ok()
    }

    fn status(world: &World<Self>, now: Timestamp) -> (CloudStatus, Vec<Notice>) {
        let metadata = &world.object.metadata;
        let seen = world.object.status.as_ref();
        let before = seen.and_then(|status| status.conditions.as_ref());
        let resolved = resolved(world);
        let quotas = match (&resolved, &world.probe) {
            (Found::Yes, Some(probe)) => probe.found.quotas.clone(),
            _ => Found::Unclear(
                reason::UNKNOWN,
                "the cloud was not asked for its quotas yet".to_owned(),
            ),
        };
        let ready = match &resolved {
            Found::Yes => world.around.ready.clone(),
            missing => missing.clone(),
        };
        let state = match (&ready, &quotas) {
            (Found::Yes, Found::Yes | Found::Unclear(..)) => CloudState::Online,
            _ => CloudState::Offline,
        };
        let new = vec![
            resolved.condition(
                condition::RESOLVED,
                (reason::RESOLVED, "the provider and all Secrets exist"),
            ),
            quotas.condition(
                condition::REACHABLE,
                (reason::REACHABLE, "the cloud says its quotas"),
            ),
            ready.condition(condition::READY, (reason::READY, "Clusters can be created")),
        ];
        let notices = changed_to_false(before, condition::READY, &ready);
        let status = CloudStatus {
            observed_generation: metadata.generation,
            state: Some(state),
            clusters: Some(world.users.clusters),
            conditions: Some(conditions(before, new, metadata.generation, now)),
        };
        (status, notices.into_iter().collect())
    }

    /// Reads the Secrets, and asks the cloud for its quotas if its provider is ready.
    async fn probe(parts: &Parts<Self>, world: &World<Self>) -> Result<CloudFound, Error> {
        let not_asked = |message: &str| Found::Unclear(reason::UNKNOWN, message.to_owned());
        let Ok(backend) = &world.around.backend else {
            return Ok(CloudFound {
                missing: None,
                quotas: not_asked("the Cloud leads nowhere"),
            });
        };
        let target = match parts.secrets.target(backend).await {
            Ok(target) => target,
            Err(TargetError::Request(error)) => return Err(error),
            Err(TargetError::Missing(missing)) => {
                return Ok(CloudFound {
                    missing: Some(missing),
                    quotas: not_asked("a request needs the credentials"),
                });
            }
        };
        let quotas = match &world.around.ready {
            Found::Yes => {
                let call = Call::Quotas {
                    cloud: target
                        .cloud
                        .as_ref()
                        .map(CloudLogin::id)
                        .unwrap_or_default(),
                };
                match parts.im.call(&target, &call).await {
                    Ok(_) => Found::Yes,
                    Err(failure) => quotas(&failure),
                }
            }
            Found::No(_, message) | Found::Unclear(_, message) => {
                Found::Unclear(reason::PROVIDER_NOT_READY, message.clone())
            }
        };
        Ok(CloudFound {
            missing: None,
            quotas,
        })
    }

    fn next(world: &World<Self>, found: &CloudFound, now: Timestamp) -> Timestamp {
        next_quotas(now, world.around.clouds, found.missing.is_none())
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

// What the status of a Cloud says. Pure.

/// Whether the provider and all Secrets exist.
fn resolved(world: &World<Clouds>) -> Found {
    if let Err(unresolved) = &world.around.backend {
        return Found::missing(unresolved);
    }
    let probe = world.probe.as_ref();
    match probe.and_then(|probe| probe.found.missing.as_ref()) {
        Some(missing) => Found::missing(missing),
        None => Found::Yes,
    }
}

// What is asked for a Cloud.

/// What a failure says about the cloud. One of the Infrastructure Manager itself says nothing, and not every kind of cloud has quotas.
fn quotas(failure: &Failure) -> Found {
    let message = failure.message.clone();
    match failure.kind {
        FailureKind::Refused if failure.message.to_lowercase().contains("implemented") => {
            Found::Unclear(
                reason::UNKNOWN,
                "this kind of cloud has no quotas".to_owned(),
            )
        }
        FailureKind::Refused | FailureKind::Conflict => Found::No(reason::UNREACHABLE, message),
        _ => Found::Unclear(reason::UNKNOWN, message),
    }
}

#[cfg(test)]
mod tests;

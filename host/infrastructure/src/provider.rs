//! The kinds InfrastructureProvider and GlobalInfrastructureProvider: whether their Infrastructure Manager answers, and to whom.
//!
//! A provider is probed by its own controller alone, once each interval: the version, and the list of infrastructures, which needs
//! credentials. Whatever a probe finds is status, and no error. Clouds read it there.

mod probe;
mod status;

use std::collections::HashSet;

use jiff::Timestamp;
use podloom_api::names::infrastructure::condition;
use podloom_api::{
    InfrastructureProviderObject, InfrastructureProviderSpec, InfrastructureProviderStatus,
};

use super::in_use::{Known, Live, Users};
use super::level::{Global, InNamespaces, Level, guarded};
use super::probe::{Basis, Found, next_probe, uids};
use super::probed::{Parts, Probed, World};
use super::resolve::{ImEndpoint, Key, OwnerUse, endpoint};
use podloom_engine::error::Error;
use podloom_engine::events::Notice;
use podloom_engine::kind::{ResourceScope, Traits};

/// Providers of both levels.
pub(crate) struct Providers;

impl Level<Providers> for InNamespaces {
    const TRAITS: Traits = guarded(
        "InfrastructureProvider",
        "infrastructureprovider",
        ResourceScope::Namespaced,
    );
}

impl Level<Providers> for Global {
    const TRAITS: Traits = guarded(
        "GlobalInfrastructureProvider",
        "globalinfrastructureprovider",
        ResourceScope::Cluster,
    );
}

/// What a probe of a provider found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProviderFound {
    /// Whether it says its version.
    pub(crate) reachable: Found,
    /// Its version, if it does.
    pub(crate) version: Option<String>,
    /// Whether it accepts the credentials.
    pub(crate) authenticated: Found,
}

impl Probed for Providers {
    type Spec = InfrastructureProviderSpec;
    type Status = InfrastructureProviderStatus;
    /// Where its Infrastructure Manager is, or why that is not known.
    type Around = Result<ImEndpoint, String>;
    type Found = ProviderFound;

    fn around(
        parts: &Parts<Self>,
        provider: &InfrastructureProviderObject,
    ) -> (Self::Around, Basis) {
        let endpoint = endpoint(provider, &parts.caches);
        let owner = endpoint.as_ref().map(|endpoint| &endpoint.owner);
        let basis = Basis {
            generations: vec![provider.metadata.generation],
            secrets: parts.versions(owner.into_iter().flat_map(OwnerUse::all)),
            is_provider_ready: false,
        };
        (endpoint, basis)
    }

    fn leads_somewhere(endpoint: &Self::Around) -> bool {
        endpoint.is_ok()
    }

    fn status(world: &World<Self>, now: Timestamp) -> (InfrastructureProviderStatus, Vec<Notice>) {
        status::status(world, now)
    }

    async fn probe(parts: &Parts<Self>, world: &World<Self>) -> Result<ProviderFound, Error> {
        probe::probe(parts, &world.around).await
    }

    fn next(_: &World<Self>, found: &ProviderFound, now: Timestamp) -> Timestamp {
        let is_well = found.reachable == Found::Yes && found.authenticated == Found::Yes;
        next_probe(now, is_well)
    }

    fn users(known: &Known, provider: &Key) -> Users {
        known.users_of_provider(provider)
    }

    async fn live_users(live: &Live, provider: &Key) -> Result<Users, Error> {
        live.users_of_provider(provider).await
    }

    fn uids(known: &Known) -> HashSet<String> {
        uids(&known.providers())
    }
}

/// Returns whether the status of a provider says that it is ready, as conditions write it.
pub(crate) fn readiness(provider: &InfrastructureProviderObject) -> Option<&str> {
    let status = provider.status.as_ref()?;
    let mut conditions = status.conditions.iter().flatten();
    let ready = conditions.find(|it| it.type_ == condition::READY)?;
    Some(&ready.status)
}

#[cfg(test)]
mod tests;

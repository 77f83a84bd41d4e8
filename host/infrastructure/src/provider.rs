//! The kinds InfrastructureProvider and GlobalInfrastructureProvider: whether their Infrastructure Manager answers, and to whom.
//!
//! A provider is probed by its own controller alone, once each interval: the version, and the list of infrastructures, which needs
//! credentials. Whatever a probe finds is status, and no error. Clouds read it there.

use std::collections::HashSet;

use jiff::Timestamp;
use podloom_api::names::infrastructure::{condition, reason};
use podloom_api::{
    InfrastructureProviderObject, InfrastructureProviderSpec, InfrastructureProviderStatus,
};
use podloom_engine::conditions::conditions;
use podloom_engine::error::Error;
use podloom_engine::events::Notice;
use podloom_engine::kind::{ResourceScope, Traits};

use super::im::{Answer, Call, Target};
use super::in_use::{Known, Live, Users};
use super::insecure::warning;
use super::probed::{
    Basis, Found, Global, InNamespaces, Level, Parts, Probed, World, changed_to_false, guarded,
    next_probe, uids,
};
use super::resolve::{ImEndpoint, Key, endpoint};
use super::secrets::TargetError;

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
        let basis = Basis {
            generations: vec![provider.metadata.generation],
            secrets: parts.versions(endpoint.iter().flat_map(ImEndpoint::secrets)),
            is_provider_ready: false,
        };
        (endpoint, basis)
    }

    fn leads_somewhere(endpoint: &Self::Around) -> bool {
        endpoint.is_ok()
    }

    fn status(world: &World<Self>, now: Timestamp) -> (InfrastructureProviderStatus, Vec<Notice>) {
        let metadata = &world.object.metadata;
        let seen = world.object.status.as_ref();
        let before = seen.and_then(|status| status.conditions.as_ref());
        let found = found(world);
        let ready = ready(world, &found);
        let new = vec![
            found.reachable.condition(
                condition::REACHABLE,
                (
                    reason::REACHABLE,
                    "the Infrastructure Manager says its version",
                ),
            ),
            found.authenticated.condition(
                condition::AUTHENTICATED,
                (
                    reason::AUTHENTICATED,
                    "the Infrastructure Manager accepts the credentials",
                ),
            ),
            ready.condition(condition::READY, (reason::READY, "Clusters can be created")),
        ];
        let mut notices: Vec<Notice> = changed_to_false(before, condition::READY, &ready)
            .into_iter()
            .collect();
        let is_new = seen.and_then(|status| status.observed_generation) != metadata.generation;
        if is_new {
            notices.extend(insecure(world));
        }
        let status = InfrastructureProviderStatus {
            observed_generation: metadata.generation,
            // What it said last, while it does not answer.
            version: found
                .version
                .or_else(|| seen.and_then(|status| status.version.clone())),
            clusters: Some(world.users.clusters),
            conditions: Some(conditions(before, new, metadata.generation, now)),
        };
        (status, notices)
    }

    /// Asks an Infrastructure Manager for its version, and if it answers for the infrastructures of the owner.
    async fn probe(parts: &Parts<Self>, world: &World<Self>) -> Result<ProviderFound, Error> {
        let target = match &world.around {
            Ok(endpoint) => parts.secrets.owner(endpoint).await,
            Err(message) => return Ok(nothing(reason::UNKNOWN, message)),
        };
        let target = match target {
            Ok(target) => target,
            Err(TargetError::Request(error)) => return Err(error),
            Err(TargetError::Missing(missing)) => {
                let found = nothing(reason::UNKNOWN, "a request needs the credentials");
                return Ok(ProviderFound {
                    authenticated: Found::missing(&missing),
                    ..found
                });
            }
        };
        let version = match parts.im.call(&target, &Call::Version).await {
            Ok(Answer::Version(version)) => version,
            Ok(_) => return Ok(nothing(reason::UNREACHABLE, "the answer is no version")),
            Err(failure) => {
                let found = nothing(reason::UNREACHABLE, &failure.message);
                return Ok(ProviderFound {
                    reachable: Found::of(&failure),
                    ..found
                });
            }
        };
        Ok(ProviderFound {
            reachable: Found::Yes,
            version: Some(version),
            authenticated: list(parts, &target).await,
        })
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

// What the status of a provider says. Pure.

fn found(world: &World<Providers>) -> ProviderFound {
    match (&world.around, &world.probe) {
        (Ok(_), Some(probe)) => probe.found.clone(),
        _ => nothing(
            reason::UNKNOWN,
            "the Infrastructure Manager was not asked yet",
        ),
    }
}

/// The first thing that is wrong.
fn ready(world: &World<Providers>, found: &ProviderFound) -> Found {
    if let Err(message) = &world.around {
        return Found::No(reason::ENDPOINT_INVALID, message.clone());
    }
    match (&found.reachable, &found.authenticated) {
        (Found::Yes, authenticated) => authenticated.clone(),
        // A missing Secret is the cause, and not that nothing was asked.
        (Found::Unclear(..), missing @ Found::No(..)) => missing.clone(),
        (unreachable, _) => unreachable.clone(),
    }
}

/// The Event about an Infrastructure Manager that gets credentials in plain text.
fn insecure(world: &World<Providers>) -> Option<Notice> {
    let endpoint = world.around.as_ref().ok()?;
    let note = warning(&endpoint.url)?;
    Some(Notice::warning(reason::INSECURE_ENDPOINT, note))
}

// What is asked for a provider.

async fn list(parts: &Parts<Providers>, target: &Target) -> Found {
    match parts.im.call(target, &Call::List).await {
        Ok(_) => Found::Yes,
        Err(failure) => Found::of(&failure),
    }
}

/// What is found if nothing can be asked.
fn nothing(reason: &'static str, message: &str) -> ProviderFound {
    let unclear = Found::Unclear(reason, message.to_owned());
    ProviderFound {
        reachable: unclear.clone(),
        version: None,
        authenticated: unclear,
    }
}

#[cfg(test)]
mod tests;

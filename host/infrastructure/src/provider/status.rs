//! What the status of a provider says. Pure.

use jiff::Timestamp;
use podloom_api::InfrastructureProviderStatus;
use podloom_api::names::infrastructure::{condition, reason};
use podloom_engine::conditions::conditions;
use podloom_engine::events::Notice;

use super::{ProviderFound, Providers};
use crate::insecure::warning;
use crate::probe::{Found, changed_to_false};
use crate::probed::World;

/// Returns the status of a provider, and the Events to publish when it is written.
pub(super) fn status(
    world: &World<Providers>,
    now: Timestamp,
) -> (InfrastructureProviderStatus, Vec<Notice>) {
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

fn found(world: &World<Providers>) -> ProviderFound {
    match (&world.around, &world.probe) {
        (Ok(_), Some(probe)) => probe.found.clone(),
        _ => {
            let unclear = Found::Unclear(
                reason::UNKNOWN,
                "the Infrastructure Manager was not asked yet".to_owned(),
            );
            ProviderFound {
                reachable: unclear.clone(),
                version: None,
                authenticated: unclear,
            }
        }
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

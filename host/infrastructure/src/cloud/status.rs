//! What the status of a Cloud says. Pure.

use jiff::Timestamp;
use podloom_api::names::infrastructure::{condition, reason};
use podloom_api::{CloudState, CloudStatus};
use podloom_engine::conditions::conditions;
use podloom_engine::events::Notice;

use super::Clouds;
use crate::probe::{Found, changed_to_false};
use crate::probed::World;

/// Returns the status of a Cloud, and the Events to publish when it is written.
pub(super) fn status(world: &World<Clouds>, now: Timestamp) -> (CloudStatus, Vec<Notice>) {
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
        Found::Yes => world.around.provider.ready.clone(),
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

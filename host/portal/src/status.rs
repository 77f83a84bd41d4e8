//! The status of a PortalExpose, computed from the world.

use jiff::Timestamp;
use podloom_api::{PortalExposeStatus, RelayStates, TunnelPods};
use podloom_engine::conditions::conditions as merged;

use super::conditions;
use super::relays::Observation;
use super::view::View;

/// Returns the status. Times stay as they are where nothing changes.
pub(crate) fn status(
    view: &View<'_>,
    observation: Observation,
    now: Timestamp,
) -> PortalExposeStatus {
    let world = view.world;
    let seen = world.status();
    let facts = &view.facts;
    let generation = world.expose.metadata.generation;
    PortalExposeStatus {
        observed_generation: generation,
        phase: Some(view.phase),
        public_url: view.public_url(),
        tunnel_class_name: view.verdict.class.as_ref().map(|class| class.name.clone()),
        tunnel_pods: Some(TunnelPods {
            ready: facts.ready,
            total: facts.desired,
        }),
        relay: Some(RelayStates {
            summary: Some(format!("{}/{}", facts.connected, facts.targets)),
            connected: Some(view.relays.clone()),
        }),
        applied: world.applied().cloned(),
        conditions: Some(merged(
            seen.and_then(|status| status.conditions.as_ref()),
            conditions::of(view, observation),
            generation,
            now,
        )),
    }
}

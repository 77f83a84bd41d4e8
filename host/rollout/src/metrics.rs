//! What is measured of ChainRollouts.

use podloom_api::{ChainRolloutObject, RolloutPhase};
use podloom_engine::metrics::{NONE, Objects, UNREADABLE};

/// The name of the controller in logs and metrics.
pub(crate) const CONTROLLER: &str = "chainrollout";

/// Declares the phases, for the metric of objects.
pub fn declare(objects: &Objects) {
    let phases = [NONE, UNREADABLE].into_iter();
    let phases = phases.chain(RolloutPhase::ALL.map(RolloutPhase::as_str));
    objects.declare(CONTROLLER, phases.collect());
}

/// The phase of a ChainRollout.
pub(crate) fn phase(rollout: &ChainRolloutObject) -> &'static str {
    let phase = rollout.status.as_ref().and_then(|status| status.phase);
    phase.map_or(NONE, RolloutPhase::as_str)
}

//! What the outputs of the template mean: the kubeconfig, or why there is none.

use jiff::Timestamp;
use podloom_api::names::infrastructure::reason;
use podloom_engine::plan::later;
use serde_json::{Map, Value};

use super::trouble;
use crate::cluster::backoff;
use crate::cluster::memory::{KubeconfigTrouble, Trouble};
use crate::cluster::world::World;
use crate::kubeconfig::{Kubeconfig, KubeconfigProblem};

/// The output with the kubeconfig.
const OUTPUT: &str = "kubeconfig";

/// Checks the kubeconfig. Nobody gets to read what it says.
pub(super) fn read(world: &mut World, outputs: &Map<String, Value>, at: Timestamp) {
    match Kubeconfig::of_output(outputs.get(OUTPUT)) {
        Ok(kubeconfig) => {
            world.known.kubeconfig = None;
            world.learned.kubeconfig = Some(kubeconfig);
        }
        Err(problem) => {
            let reason = match problem {
                KubeconfigProblem::Missing => reason::OUTPUT_MISSING,
                KubeconfigProblem::Invalid(_) | KubeconfigProblem::Certificates(_) => {
                    reason::KUBECONFIG_INVALID
                }
                KubeconfigProblem::Unsafe(_) => reason::KUBECONFIG_UNSAFE,
            };
            note(world, trouble(reason, problem.to_string()), at);
        }
    }
}

/// IM could not make the outputs.
pub(super) fn refused(world: &mut World, message: &str, at: Timestamp) {
    note(world, trouble(reason::OUTPUT_MISSING, message), at);
}

/// Notes why there is no kubeconfig, and when to ask again.
pub(crate) fn note(world: &mut World, trouble: Trouble, at: Timestamp) {
    let Some(mark) = world.durable.mark() else {
        return;
    };
    let before = world.known.kubeconfig.take();
    let before = before.filter(|it| it.mark == mark && it.trouble.reason == trouble.reason);
    let failures = before.map_or(1, |it| it.failures.saturating_add(1));
    let is_final = matches!(
        trouble.reason,
        reason::KUBECONFIG_INVALID | reason::KUBECONFIG_UNSAFE
    );
    let wait = match is_final {
        true => backoff::longest(world.poll()),
        false => backoff::wait(world.poll(), failures, world.uid()),
    };
    world.known.kubeconfig = Some(KubeconfigTrouble {
        trouble,
        mark,
        failures,
        next: later(at, wait),
    });
}

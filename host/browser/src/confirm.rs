//! What is read from the API server before a plan acts on it.
//!
//! A cache may be out of date. So before a pod is created, before a session ends for a reason that may no longer hold, and before
//! a pod is deleted immediately because it never started, the next step is a read from the API server. The plan that is made from
//! the answer is the same, or a better one.

use std::time::Duration;

use jiff::Timestamp;
use podloom_api::Phase;
use podloom_engine::plan::Plan;

use super::action::{Action, Confirmation, PodDeletion};
use super::judge::due;
use super::pod::SeenPod;
use super::timeouts::Timeouts;
use super::world::World;

/// How much longer a late pod gets, a quarter of its timeout at most: kubelets report every ten seconds.
const LATE: Duration = Duration::from_secs(15);

/// Returns the plan, or the read that has to come before it.
pub(crate) fn confirmed(world: &World, plan: Plan<Action>) -> Plan<Action> {
    match &plan.action {
        // As long as nobody has looked for the pod, it would seem to be lost, or be left behind.
        Some(_) if world.learned.pod_unknown => Plan::act(Action::Confirm(Confirmation::Pod)),
        // A cache may still show a session as new that is over.
        Some(Action::CreatePod(_)) if !world.learned.browser_confirmed => {
            Plan::act(Action::ReadBrowser)
        }
        // By now, a container of the pod may have started. The pod of a failed session was read before the failure was published.
        Some(Action::DeletePod {
            how: PodDeletion::Force,
            ..
        }) if world.phase() != Some(Phase::Failed) && !world.learned.end_confirmed => {
            Plan::act(Action::Confirm(Confirmation::Pod))
        }
        Some(Action::WriteStatus(write)) if write.end.is_some() => match doubtful(world) {
            Some(what) => Plan::act(Action::Confirm(what)),
            None => plan,
        },
        _ => plan,
    }
}

/// What may have changed by now, unless it was read in this pass.
fn doubtful(world: &World) -> Option<Confirmation> {
    if world.learned.end_confirmed {
        return None;
    }
    let is_marked = world.has_finalizer() || world.learned.metadata_rejected.is_none();
    match world.own_pod() {
        Some(pod) if pod.is_pending() => Some(Confirmation::Pod),
        None if world.lacks_pod() && is_marked => Some(Confirmation::Absence),
        _ => None,
    }
}

/// Returns how much longer to wait for a pod that is late, if it is; `known` says for how long that has been known. After an
/// outage of the API server the pod may be running, and its kubelet may not have reported it yet.
pub(crate) fn patience(
    pod: &SeenPod,
    timeouts: &Timeouts,
    now: Timestamp,
    known: impl FnOnce() -> Duration,
) -> Option<Duration> {
    let is_late = pod.is_pending()
        && pod.metadata.deletion_timestamp.is_none()
        && due(pod, timeouts, now) <= now;
    if !is_late {
        return None;
    }
    let rest = LATE.min(timeouts.pod_creation / 4).saturating_sub(known());
    (!rest.is_zero()).then_some(rest)
}

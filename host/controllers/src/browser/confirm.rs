//! What is looked at once more before it is believed.
//!
//! A plan made on caches may be made on an old one. Before a pod is created, and before a session ends for what may be otherwise by
//! now, the plan is to look at the API server instead; made again on what that shows, it is the same plan or a better one.

use std::time::Duration;

use jiff::Timestamp;

use super::action::{Action, Confirmation};
use super::judge::due;
use super::pod::SeenPod;
use super::timeouts::Timeouts;
use super::world::World;
use crate::engine::plan::Plan;

/// How long a pod that is late gets after it was found to be, a quarter of its time at most: kubelets tell every ten seconds.
const LATE: Duration = Duration::from_secs(15);

/// Returns the plan, or the look that has to come before it.
pub(crate) fn confirmed(world: &World, plan: Plan<Action>) -> Plan<Action> {
    match &plan.action {
        // A session that is over by now would lose its pod, or be taken for one that has lost it.
        Some(_) if world.learned.pod_unknown => Plan::act(Action::Confirm(Confirmation::Pod)),
        // Of a session that is over, a cache may still show that it never began.
        Some(Action::CreatePod(_)) if !world.learned.browser_confirmed => {
            Plan::act(Action::ReadBrowser)
        }
        Some(Action::WriteStatus(write)) if write.end.is_some() => match doubtful(world) {
            Some(what) => Plan::act(Action::Confirm(what)),
            None => plan,
        },
        _ => plan,
    }
}

/// What may be otherwise by now, unless it was looked at in this pass.
fn doubtful(world: &World) -> Option<Confirmation> {
    if world.learned.end_confirmed {
        return None;
    }
    let is_marked = world.has_finalizer() || world.learned.metadata_refused.is_none();
    match world.own_pod() {
        Some(pod) if pod.is_pending() => Some(Confirmation::Pod),
        None if world.lacks_pod() && is_marked => Some(Confirmation::Absence),
        _ => None,
    }
}

/// Returns for how long a pod is not given up that has been late for so long, if it is late: after an outage of the API server it may
/// run, and its kubelet not have said so yet.
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

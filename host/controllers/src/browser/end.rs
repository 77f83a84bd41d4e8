//! How Browsers go: those that ended, and those that somebody deleted.

use jiff::Timestamp;
use podloom_api::{BrowserStatus, Phase, names};

use super::judge::later;
use super::plan::{Plan, Then};
use super::world::{World, instant};
use crate::act::{Action, Deletion, MetadataPatch};
use crate::events::Notice;
use crate::run::Timeouts;

/// Plans for a Browser whose status says that its session is over: the pod of a failed one goes at once, the Browser follows
/// when its message has been there long enough.
pub(crate) fn plan_ended(world: &World, timeouts: &Timeouts, now: Timestamp) -> Plan {
    let failed = world.phase() == Some(Phase::Failed);
    if failed && let Some(deletion) = delete_pod(world, Deletion::Force) {
        return Plan::act(deletion);
    }
    if failed && let Some(status) = world.status() {
        let visible_until = later(ended_at(world, status, now), timeouts.failed_retention);
        if now < visible_until {
            return Plan::wait(Then::At(visible_until));
        }
    }
    Plan::act(Action::Delete)
}

/// Plans for a Browser that is being deleted: its pod goes first, and is waited for.
pub(crate) fn plan_deleted(world: &World, timeouts: &Timeouts, now: Timestamp) -> Plan {
    if !world.has_finalizer() {
        return Plan::wait(Then::Change);
    }
    let Some(pod) = world.own_pod() else {
        return release(world);
    };
    let deleted = instant(world.browser.metadata.deletion_timestamp.as_ref(), now);
    let until = later(deleted, timeouts.pod_deletion);
    if now >= until {
        return match delete_pod(world, Deletion::LastResort) {
            Some(deletion) => Plan::act(deletion),
            None => release(world),
        };
    }
    let failed = world.phase() == Some(Phase::Failed);
    let terminating = pod.metadata.deletion_timestamp.is_some();
    let deletion = match (failed, terminating) {
        (true, _) => delete_pod(world, Deletion::Force),
        (false, false) => delete_pod(world, Deletion::Graceful),
        (false, true) => None,
    };
    deletion.map_or_else(|| Plan::wait(Then::At(until)), Plan::act)
}

/// Lets the Browser go.
fn release(world: &World) -> Plan {
    let rest = world
        .finalizers()
        .iter()
        .filter(|name| *name != names::finalizer::BROWSER)
        .cloned()
        .collect();
    let patch = MetadataPatch {
        finalizers: Some(rest),
        ..MetadataPatch::default()
    };
    let gone = Notice::normal(names::event::DELETED, "the session is over");
    Plan::act(Action::SetMetadata(patch)).telling((!is_told).then_some(gone))
}

/// The deletion of the Browser's own pod, unless this pass has told it to go already.
fn delete_pod(world: &World, how: Deletion) -> Option<Action<BrowserStatus>> {
    let pod = world.own_pod().filter(|_| !world.learned.pod_deleted)?;
    let is_forced = pod.metadata.deletion_timestamp.is_some()
        && pod.metadata.deletion_grace_period_seconds == Some(0);
    if is_forced && how == Deletion::Force {
        return None;
    }
    Some(Action::DeletePod {
        name: pod.metadata.name.clone()?,
        uid: pod.metadata.uid.clone()?,
        how,
    })
}

/// When the session ended: when it was no longer, or not yet, known whether it is ready.
fn ended_at(world: &World, status: &BrowserStatus, now: Timestamp) -> Timestamp {
    let ready = status.conditions.iter().flatten().find(|condition| {
        condition.type_ == names::condition::READY && condition.status == "False"
    });
    match ready {
        Some(ready) => ready.last_transition_time.0,
    // Of a session that ended well, its end has been told.
    let is_told = world.phase() == Some(Phase::Succeeded);
        None => world.created_at(now),
    }
}

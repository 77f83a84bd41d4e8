//! How Browsers are deleted: those whose session is over, and those that a user deleted.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use podloom_api::{BrowserStatus, Phase, names};
use podloom_engine::events::Notice;
use podloom_engine::plan::{Plan, Then, later};
use podloom_engine::write::MetadataPatch;

use super::action::{Action, PodDeletion};
use super::pod::SeenPod;
use super::timeouts::Timeouts;
use super::world::{World, instant};

/// How long a forced deletion may take before it is asked for again. The API server marks the pod and then removes it, in two writes;
/// if the request breaks off between them, the pod stays until the next request.
const FORCED_WITHIN: Duration = Duration::from_secs(5);

/// Plans for a Browser whose status says that its session is over. The pod of a failed session is deleted, and the Browser after
/// `--failed-retention`.
pub(crate) fn plan_ended(world: &World, timeouts: &Timeouts, now: Timestamp) -> Plan<Action> {
    if world.phase() != Some(Phase::Failed) {
        return Plan::act(Action::Delete);
    }
    let ended = world
        .status()
        .map_or(now, |status| ended_at(world, status, now));
    let visible_until = later(ended, timeouts.failed_retention);
    // If the pod could not be deleted, the deletion of the Browser tries it again, and leaves it behind in the end.
    if now >= visible_until.max(later(ended, timeouts.pod_deletion)) {
        return Plan::act(Action::Delete);
    }
    let forced = world
        .own_pod()
        .and_then(|pod| terminates_until(pod, timeouts));
    let how = match world.own_pod() {
        Some(pod) if runs(pod) && !is_forced(pod) && forced.is_none_or(|forced| now < forced) => {
            PodDeletion::Graceful
        }
        _ => PodDeletion::Force,
    };
    if let Some(deletion) = delete_pod(world, how, now) {
        return Plan::act(deletion);
    }
    if now < visible_until {
        let sooner = [forced, forced_again(world)].into_iter().flatten();
        let next = sooner
            .filter(|time| now < *time)
            .fold(visible_until, Ord::min);
        return Plan::wait(Then::At(next));
    }
    Plan::act(Action::Delete)
}

/// Plans for a Browser that is being deleted: its pod is deleted first, and waited for.
pub(crate) fn plan_deleted(world: &World, timeouts: &Timeouts, now: Timestamp) -> Plan<Action> {
    if !world.has_finalizer() {
        return Plan::wait(Then::Change);
    }
    let Some(pod) = world.own_pod() else {
        return release(world);
    };
    let deleted = instant(world.browser.metadata.deletion_timestamp.as_ref(), now);
    let until = later(deleted, timeouts.pod_deletion);
    if now >= until {
        return match delete_pod(world, PodDeletion::LastResort, now) {
            Some(deletion) => Plan::act(deletion),
            None => release(world),
        };
    }
    let failed = world.phase() == Some(Phase::Failed);
    let how = if pod.never_started() || is_forced(pod) || failed && !runs(pod) {
        PodDeletion::Force
    } else {
        PodDeletion::Graceful
    };
    if let Some(deletion) = delete_pod(world, how, now) {
        return Plan::act(deletion);
    }
    let again = forced_again(world).filter(|again| now < *again);
    Plan::wait(Then::At(again.map_or(until, |again| again.min(until))))
}

/// Whether containers of the pod may be running. Some of them, such as recorders, need the grace period to finish.
fn runs(pod: &SeenPod) -> bool {
    matches!(pod.status.phase, Some(Phase::Running | Phase::Unknown))
}

/// Until when a pod may take to terminate, counted from the request to delete it.
fn terminates_until(pod: &SeenPod, timeouts: &Timeouts) -> Option<Timestamp> {
    let gone_by = pod.metadata.deletion_timestamp.as_ref()?.0;
    let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
    let asked = gone_by
        .checked_sub(SignedDuration::from_secs(grace))
        .unwrap_or(gone_by);
    Some(later(asked, timeouts.pod_deletion))
}

/// Removes our finalizer, so that the Browser can go.
fn release(world: &World) -> Plan<Action> {
    let finalizer = names::finalizer::BROWSER;
    let patch = MetadataPatch::without(&world.browser.metadata, finalizer).unwrap_or_default();
    // A session that succeeded already has its Event, Completed.
    let has_event = world.phase() == Some(Phase::Succeeded);
    let gone = Notice::normal(names::event::DELETED, "the session is over");
    Plan::act(Action::SetMetadata(patch)).with_notices((!has_event).then_some(gone))
}

/// The deletion of the Browser's own pod, unless it was requested before in this way or a stronger one: the time for a graceful deletion
/// may be over in the same pass.
fn delete_pod(world: &World, how: PodDeletion, now: Timestamp) -> Option<Action> {
    let pod = world
        .own_pod()
        .filter(|_| world.learned.pod_deleted < Some(how))?;
    let is_done = match how {
        PodDeletion::Graceful => pod.metadata.deletion_timestamp.is_some(),
        PodDeletion::Force => is_forced(pod) && forced_again(world).is_none_or(|again| now < again),
        PodDeletion::LastResort => false,
    };
    if is_done {
        return None;
    }
    Some(Action::DeletePod {
        uid: pod.metadata.uid.clone()?,
        how,
    })
}

/// Whether a forced deletion of the pod was requested.
fn is_forced(pod: &SeenPod) -> bool {
    let metadata = &pod.metadata;
    metadata.deletion_timestamp.is_some() && metadata.deletion_grace_period_seconds == Some(0)
}

/// When to request the forced deletion of the Browser's own pod again. Never while the pod has finalizers: no request removes it before
/// them, and the API server removes it with the last of them.
fn forced_again(world: &World) -> Option<Timestamp> {
    let pod = world.own_pod().filter(|pod| is_forced(pod))?;
    let finalizers = pod.metadata.finalizers.as_deref();
    let is_free = finalizers.unwrap_or_default().is_empty();
    let asked = pod.metadata.deletion_timestamp.as_ref()?.0;
    is_free.then(|| later(asked, FORCED_WITHIN))
}

/// When the session ended: when Ready became False. A Browser without that condition counts from its creation.
fn ended_at(world: &World, status: &BrowserStatus, now: Timestamp) -> Timestamp {
    let ready = status.conditions.iter().flatten().find(|condition| {
        condition.type_ == names::condition::READY && condition.status == "False"
    });
    match ready {
        Some(ready) => ready.last_transition_time.0,
        None => world.created_at(now),
    }
}

//! What to do next about a Browser.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use podloom_api::{BrowserObject, Phase, names};
use podloom_engine::events::Notice;
use podloom_engine::plan::{Plan, Then, later};
use podloom_engine::write::MetadataPatch;
use serde_json::{Value, json};

use super::cause;
use super::cause::Cause;
use super::judge::{Verdict, Wanted, confirmed, judge};
use super::pod::{SeenPod, instant};
use super::render::browser_labels;
use super::status::status;
use super::world::{Action, PodDeletion, Timeouts, World};

/// How long a pod must have been ready for a warning when it no longer is: a probe that flaps would warn each time. The
/// conditions show every change.
const SETTLED: Duration = Duration::from_secs(30);
/// How often to look at a pod that the watch does not show, such as one without our label.
const UNWATCHED: Duration = Duration::from_secs(5);
/// When to try again to set the finalizer of a session that has its pod already.
const UNMARKED: Duration = Duration::from_secs(30);

/// Decides the next step for a Browser, from its world alone.
pub(crate) fn plan(world: &World, timeouts: &Timeouts, now: Timestamp) -> Plan<Action> {
    let mut plan = confirmed(world, next_step(world, timeouts, now));
    if plan.action.is_none() && world.own_pod().is_some() && !world.pod_is_watched {
        plan.then = plan.then.by(later(now, UNWATCHED));
    }
    let is_unmarked = !world.has_finalizer() && world.learned.metadata_rejected.is_some();
    if plan.action.is_none() && is_unmarked {
        plan.then = plan.then.by(later(now, UNMARKED));
    }
    plan
}

fn next_step(world: &World, timeouts: &Timeouts, now: Timestamp) -> Plan<Action> {
    if let Some(stray) = stray(world) {
        return Plan::act(stray);
    }
    if world.is_deleted() {
        return plan_deleted(world, timeouts, now);
    }
    if world.is_over() {
        return plan_ended(world, timeouts, now);
    }
    if world.learned.metadata_rejected.is_none()
        && let Some(patch) = missing_metadata(&world.browser)
    {
        return Plan::act(Action::SetMetadata(patch));
    }
    let verdict = judge(world, timeouts, now);
    match verdict {
        Verdict::Create(wanted) => {
            let Wanted { pod, from, policy } = *wanted;
            if let Some(policy) = policy.filter(|_| !world.learned.policy_applied) {
                return Plan::act(Action::ApplyPolicy(Box::new(policy)));
            }
            let created = format!("created pod {}", world.name());
            let pod = Box::new(pod);
            let action = match from {
                Some(from) => Action::TakePod { pod, from },
                None => Action::CreatePod(pod),
            };
            return Plan::act(action)
                .with_notices([Notice::normal(names::reason::POD_CREATED, created)]);
        }
        Verdict::Goes => return Plan::act(Action::Delete),
        _ => {}
    }
    let wanted = status(world, &verdict, now);
    if Some(&wanted) != world.status() {
        let notice = notice(world, &verdict, now);
        let (end, then) = match verdict {
            // Clients have to see how the session ended before the Browser goes. The event of this write starts the next pass.
            Verdict::Ended(cause) => (Some(cause), Then::Change),
            _ => (None, Then::GoOn),
        };
        let status = Box::new(wanted);
        let plan = Plan::act(Action::WriteStatus { status, end }).with_notices(notice);
        return Plan { then, ..plan };
    }
    Plan::wait(next(&verdict))
}

/// Deletes a second pod of a session. There is one if the patch that takes a warm pod arrived late, when the session had another already.
/// No client knows of it: the status has the first.
fn stray(world: &World) -> Option<Action> {
    let noted = world.status()?.pod_uid.as_deref()?;
    let mut own = world.own_pods.iter();
    let stray = own.find(|pod| {
        let uid = pod.metadata.uid.as_deref();
        world.owns(pod) && uid != Some(noted) && pod.metadata.deletion_timestamp.is_none()
    })?;
    Some(Action::DeleteStray {
        name: stray.metadata.name.clone()?,
        uid: stray.metadata.uid.clone()?,
    })
}

/// The finalizer and the three labels, if any is missing.
pub(crate) fn missing_metadata(browser: &BrowserObject) -> Option<MetadataPatch> {
    let metadata = &browser.metadata;
    let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
    let has_ours = finalizers
        .iter()
        .any(|name| name == names::finalizer::BROWSER);
    let finalizers = (!has_ours).then(|| {
        let mut finalizers = finalizers.to_vec();
        finalizers.push(names::finalizer::BROWSER.to_owned());
        finalizers
    });
    let has = |key: &str, value: &String| {
        let labels = metadata.labels.as_ref();
        labels.and_then(|labels| labels.get(key)) == Some(value)
    };
    let name = metadata.name.as_deref().unwrap_or_default();
    let labels: BTreeMap<&'static str, String> = browser_labels(name, &browser.spec)
        .into_iter()
        .filter(|(key, value)| !has(key, value))
        .collect();
    (finalizers.is_some() || !labels.is_empty()).then_some(MetadataPatch { finalizers, labels })
}

/// Returns the JSON Patch (RFC 6902) that marks a new Browser as the operator would: with its finalizer and labels. None if it has them,
/// or if its name, which is one of the labels, is not chosen yet.
pub fn marks(browser: &BrowserObject) -> Option<String> {
    browser.metadata.name.as_ref()?;
    let MetadataPatch { finalizers, labels } = missing_metadata(browser)?;
    // What is there is replaced.
    let add = |path: String, value: Value| json!({ "op": "add", "path": path, "value": value });
    let finalizers = finalizers.map(|all| add("/metadata/finalizers".to_owned(), all.into()));
    let labels: Vec<Value> = match &browser.metadata.labels {
        None => vec![add("/metadata/labels".to_owned(), json!(labels))],
        Some(_) => {
            let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
            let label = |(key, value): (&'static str, String)| {
                add(format!("/metadata/labels/{}", escaped(key)), value.into())
            };
            labels.into_iter().map(label).collect()
        }
    };
    let patch: Vec<Value> = finalizers.into_iter().chain(labels).collect();
    serde_json::to_string(&patch).ok()
}

/// The Event that a change of the status is worth.
fn notice(world: &World, verdict: &Verdict, now: Timestamp) -> Option<Notice> {
    match verdict {
        Verdict::Starts { .. } | Verdict::Runs => disturbance(world, now),
        Verdict::Waits {
            cause: Cause::Unconfigured(_),
            ..
        } => None,
        Verdict::Waits { cause, .. } | Verdict::Ended(cause) => Some(cause.notice()),
        Verdict::Create(..) | Verdict::Goes => None,
    }
}

/// Warns of a disruption of a pod, or that it is not ready, unless the status said so before.
fn disturbance(world: &World, now: Timestamp) -> Option<Notice> {
    let pod = world.own_pod()?;
    let published = |type_| world.condition(type_, "True");
    if let Some(disruption) = cause::of_disruption(pod)
        && published(names::condition::DISRUPTION_TARGET).is_none()
    {
        return Some(Cause::Disrupted(disruption).notice());
    }
    let ready = published(names::condition::READY)?;
    let unready = cause::unready(pod)?;
    let settled = later(ready.last_transition_time.0, SETTLED);
    (unready.event == names::reason::NODE_LOST || now >= settled)
        .then(|| Notice::warning(unready.event, unready.message))
}

fn next(verdict: &Verdict) -> Then {
    match verdict {
        Verdict::Waits {
            cause: Cause::Unconfigured(_),
            until,
        }
        | Verdict::Starts { until } => Then::At(*until),
        Verdict::Waits { cause, until } => Then::Retry {
            reason: cause.event(),
            message: cause.to_string(),
            until: *until,
        },
        _ => Then::Change,
    }
}

// How Browsers are deleted: those whose session is over, and those that a user deleted.

/// How long a forced deletion may take before it is asked for again. The API server marks the pod and then removes it, in two writes;
/// if the request breaks off between them, the pod stays until the next request.
const FORCED_WITHIN: Duration = Duration::from_secs(5);

/// Plans for a Browser whose status says that its session is over. The pod of a failed session is deleted, and the Browser after
/// `--failed-retention`.
pub(crate) fn plan_ended(world: &World, timeouts: &Timeouts, now: Timestamp) -> Plan<Action> {
    if world.phase() != Some(Phase::Failed) {
        return Plan::act(Action::Delete);
    }
    let ended = ended_at(world, now);
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
fn ended_at(world: &World, now: Timestamp) -> Timestamp {
    let ready = world.condition(names::condition::READY, "False");
    ready.map_or_else(
        || world.created_at(now),
        |ready| ready.last_transition_time.0,
    )
}

#[cfg(test)]
mod tests;

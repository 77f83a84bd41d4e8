//! Decides where a session stands that is not over, and whose Browser is not being deleted.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::core::ObjectMeta;
use podloom_api::{Phase, SelenosisKind, SessionNetworkPolicy, names};
use podloom_engine::TRACES;
use podloom_engine::plan::{Plan, later};
use podloom_mutation::PodRejection;

use super::cause;
use super::cause::Cause;
use super::pod::{SeenPod, instant};
use super::policy;
use super::render::{ConfigRef, Pair, ResolveError, Resolved, max_age, render_pod, resolve};
use super::warm::{FromPool, PoolId};
use super::world::{Action, PodDeletion, Timeouts, World};

/// For how long at least creating a pod is tried, from when this process first sees the Browser.
const FIRST_SIGHT: Duration = Duration::from_secs(30);

/// Where a session stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// This pod is to be created for it.
    Create(Box<Wanted>),
    /// It has no pod yet for this cause, which is tried again until then.
    Waits { cause: Cause, until: Timestamp },
    /// Its pod is starting. It is judged again then, if nothing changes before.
    Starts { until: Timestamp },
    /// Its pod is running, or its node does not answer.
    Runs,
    /// Its pod is being deleted, so the Browser is deleted too.
    Goes,
    /// It is over.
    Ended(Cause),
}

/// The pod that a session is to have.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) pod: Pod,
    /// The warm pods of which it can take one instead, if its BrowserConfig has some.
    pub(crate) from: Option<FromPool>,
    /// The NetworkPolicy that has to be there first, if its BrowserConfig asks for one.
    pub(crate) policy: Option<NetworkPolicy>,
}

impl Verdict {
    /// Returns why the session has no pod, or ended.
    pub(crate) fn cause(&self) -> Option<&Cause> {
        match self {
            Self::Waits { cause, .. } | Self::Ended(cause) => Some(cause),
            Self::Create(..) | Self::Starts { .. } | Self::Runs | Self::Goes => None,
        }
    }
}

/// Decides where a session stands.
pub(crate) fn judge(world: &World, timeouts: &Timeouts, now: Timestamp) -> Verdict {
    match world.pod.as_deref() {
        None if world.had_pod() => lost(world),
        // It has the name, and was read: the session's own pod went before it came.
        Some(pod) if !world.owns(pod) && world.had_pod() => lost(world),
        None => without_pod(world, timeouts, now),
        Some(pod) if !world.owns(pod) => taken(world, pod, timeouts, now),
        Some(pod) if pod.metadata.deletion_timestamp.is_some() => going(pod),
        Some(pod) => with_pod(world, pod, timeouts, now),
    }
}

fn without_pod(world: &World, timeouts: &Timeouts, now: Timestamp) -> Verdict {
    let created = world.created_at(now);
    let until = last_try(world, timeouts, now);
    if let Some(sentence) = &world.learned.metadata_rejected
        && !world.has_finalizer()
    {
        let cause = Cause::MetadataRefused(sentence.clone());
        return wait_or_end(cause, until, now);
    }
    if let Some(refusal) = &world.learned.rejection {
        return refused(refusal, timeouts, until, now);
    }
    // One that is being deleted no longer serves, and the statuses of its neighbours say so too.
    let readable = world
        .configs
        .iter()
        .filter_map(|config| config.0.as_ref().ok())
        .filter(|config| config.metadata.deletion_timestamp.is_none());
    let configs: Vec<ConfigRef<'_>> = readable.map(ConfigRef::from).collect();
    let config = || resolve(&configs, &world.browser.spec);
    let resolved = match tracing::trace_span!(target: TRACES, "config").in_scope(config) {
        Ok(resolved) => resolved,
        Err(error) => {
            // After a restart of this process or of the API server, BrowserConfigs may be seen later than their Browsers.
            let seen = world.first_seen.map_or(created, |seen| seen.max(created));
            let cause = Cause::from(&error);
            return match error {
                // Files are often applied together, so a young Browser waits for its configuration.
                ResolveError::NotFound(_) => {
                    wait_or_end(cause, later(seen, timeouts.config_grace), now)
                }
                ResolveError::Invalid { .. } => Verdict::Ended(cause),
            };
        }
    };
    let browser = &world.browser;
    let render = || render_pod(world.api, &browser.metadata, &browser.spec, &resolved);
    match tracing::trace_span!(target: TRACES, "render").in_scope(render) {
        Ok(mut pod) => {
            let policy = resolved
                .network_policy
                .and_then(|policy| behind(policy, &mut pod, &browser.metadata));
            Verdict::Create(Box::new(Wanted {
                from: pool_of(&configs, &resolved),
                policy,
                pod,
            }))
        }
        Err(error) => Verdict::Ended(Cause::from(&error)),
    }
}

/// Puts a pod behind the NetworkPolicy of its session.
fn behind(
    policy: &SessionNetworkPolicy,
    pod: &mut Pod,
    browser: &ObjectMeta,
) -> Option<NetworkPolicy> {
    let owner = pod.metadata.owner_references.as_ref()?.first()?.clone();
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(names::label::SESSION.to_owned(), browser.uid.clone()?);
    Some(policy::of_session(policy, browser, owner))
}

/// The pool that has warm pods of what was found, if the BrowserConfig wants any.
fn pool_of(configs: &[ConfigRef<'_>], resolved: &Resolved<'_>) -> Option<FromPool> {
    let mut configs = configs.iter();
    let config = configs.find(|it| it.metadata.name.as_deref() == Some(resolved.config))?;
    let Pair { browser, version } = resolved.pair;
    let pool = config.spec.warm.as_ref()?.get(browser)?.get(version)?;
    let id = PoolId {
        config: resolved.config.to_owned(),
        uid: config.metadata.uid.clone()?,
        browser: browser.to_owned(),
        version: version.to_owned(),
    };
    Some(FromPool {
        id,
        max_age: max_age(pool),
        policy: resolved.network_policy.cloned(),
    })
}

/// Until when creating a pod is tried: until the creation timeout, and for a moment from when the Browser is first seen, since it
/// may be old when this process starts, and the first failure may be temporary.
fn last_try(world: &World, timeouts: &Timeouts, now: Timestamp) -> Timestamp {
    let until = later(world.created_at(now), timeouts.pod_creation);
    let grace = FIRST_SIGHT.min(timeouts.pod_creation);
    let seen = world.first_seen.map(|seen| later(seen, grace));
    seen.map_or(until, |seen| until.max(seen))
}

fn refused(
    refusal: &PodRejection,
    timeouts: &Timeouts,
    until: Timestamp,
    now: Timestamp,
) -> Verdict {
    match refusal {
        PodRejection::Denied(_) | PodRejection::Invalid(_) => Verdict::Ended(Cause::from(refusal)),
        PodRejection::Forbidden(sentence) if now >= until => {
            Verdict::Ended(Cause::CreationTimeout {
                timeout: timeouts.pod_creation,
                missing: Some(sentence.clone()),
            })
        }
        PodRejection::Broken(_)
        | PodRejection::Overdue(_)
        | PodRejection::Unread(_)
        | PodRejection::Forbidden(_) => wait_or_end(Cause::from(refusal), until, now),
    }
}

/// What may still change is tried again until the deadline.
fn wait_or_end(cause: Cause, until: Timestamp, now: Timestamp) -> Verdict {
    if now < until {
        Verdict::Waits { cause, until }
    } else {
        Verdict::Ended(cause)
    }
}

fn with_pod(world: &World, pod: &SeenPod, timeouts: &Timeouts, now: Timestamp) -> Verdict {
    match pod.status.phase {
        Some(Phase::Running) => cause::of_running(pod).map_or(Verdict::Runs, Verdict::Ended),
        Some(Phase::Unknown) => Verdict::Runs,
        Some(Phase::Succeeded) => Verdict::Ended(Cause::Completed),
        Some(Phase::Failed) => Verdict::Ended(cause::of_failed(pod)),
        Some(Phase::Pending) | None => pending(world, pod, timeouts, now),
    }
}

fn pending(world: &World, pod: &SeenPod, timeouts: &Timeouts, now: Timestamp) -> Verdict {
    // Files are often applied together, so the Secret of a container may come a moment after its pod.
    // A pod that was just read past the cache is seen like this for the first time.
    let grace = cause::lacks_config(pod)
        .map(|_| world.lacks_config_since.unwrap_or(now))
        .map(|since| later(since, timeouts.container_config_grace))
        .filter(|end| now < *end);
    if let Some(cause) = cause::of_pending(pod, grace.is_some()) {
        return Verdict::Ended(cause);
    }
    let until = due(pod, timeouts, now);
    let until = world
        .learned
        .late_until
        .map_or(until, |late| until.max(late));
    if now < until {
        let until = grace.map_or(until, |end| until.min(end));
        return Verdict::Starts { until };
    }
    Verdict::Ended(Cause::CreationTimeout {
        timeout: timeouts.pod_creation,
        missing: cause::waits_for(pod),
    })
}

/// Until when a pod has to run. The timeout counts from the pod's own creation, so that one which was created late, because a
/// plugin failed or a quota was full, has all of it too.
pub(crate) fn due(pod: &SeenPod, timeouts: &Timeouts, now: Timestamp) -> Timestamp {
    let made = instant(pod.metadata.creation_timestamp.as_ref(), now);
    later(made, timeouts.pod_creation)
}

/// Deleting a pod is a way to end its session. Evicting or preempting one is not, so then the session fails and shows why.
fn going(pod: &SeenPod) -> Verdict {
    let disruption = cause::of_disruption(pod).map(Cause::Disrupted);
    disruption.map_or(Verdict::Goes, Verdict::Ended)
}

fn lost(world: &World) -> Verdict {
    let disruption = world.disruption().map(Cause::Disrupted);
    Verdict::Ended(disruption.unwrap_or(Cause::PodLost))
}

/// A pod of an earlier Browser of this name may still be on its way out. If that Browser went without its pod, the garbage collector
/// deletes the pod soon.
fn taken(world: &World, pod: &SeenPod, timeouts: &Timeouts, now: Timestamp) -> Verdict {
    let cause = Cause::NameTaken {
        pod: world.name().to_owned(),
    };
    if pod.metadata.deletion_timestamp.is_some() || was_of_namesake(world, pod) {
        return wait_or_end(cause, last_try(world, timeouts, now), now);
    }
    Verdict::Ended(cause)
}

/// Whether a pod that is not this Browser's was created for one of its name: that one is gone, since names are unique.
fn was_of_namesake(world: &World, pod: &SeenPod) -> bool {
    let (group, kind) = (
        world.api.group(SelenosisKind::Browser),
        SelenosisKind::Browser.name(),
    );
    pod.owner().is_some_and(|owner| {
        let of_group = owner.api_version.split('/').next() == Some(group);
        of_group && owner.kind == kind && owner.name == world.name()
    })
}

// What is read from the API server before a plan acts on it.
//
// A cache may be out of date. So before a pod is created, before a session ends for a reason that may no longer hold, and before
// a pod is deleted immediately because it never started, the next step is a read from the API server. The plan that is made from
// the answer is the same, or a better one.

/// How much longer a late pod gets, a quarter of its timeout at most: kubelets report every ten seconds.
const LATE: Duration = Duration::from_secs(15);

/// Returns the plan, or the read that has to come before it.
pub(crate) fn confirmed(world: &World, plan: Plan<Action>) -> Plan<Action> {
    match &plan.action {
        // As long as nobody has looked for the pod, it would seem to be lost, or be left behind.
        Some(_) if world.learned.pod_unknown => Plan::act(Action::ConfirmPod),
        // A cache may still show a session as new that is over.
        Some(Action::CreatePod(_) | Action::TakePod { .. } | Action::ApplyPolicy(_))
            if !world.learned.browser_confirmed =>
        {
            Plan::act(Action::ReadBrowser)
        }
        // By now, a container of the pod may have started. The pod of a failed session was read before the failure was published.
        Some(Action::DeletePod {
            how: PodDeletion::Force,
            ..
        }) if world.phase() != Some(Phase::Failed) && !world.learned.end_confirmed => {
            Plan::act(Action::ConfirmPod)
        }
        Some(Action::WriteStatus { end: Some(_), .. }) => doubtful(world).map_or(plan, Plan::act),
        _ => plan,
    }
}

/// The read of what may have changed by now, unless it was read in this pass. A pod that has ended needs no second look.
fn doubtful(world: &World) -> Option<Action> {
    if world.learned.end_confirmed {
        return None;
    }
    let is_marked = world.has_finalizer() || world.learned.metadata_rejected.is_none();
    match world.own_pod() {
        Some(pod) if pod.is_pending() => Some(Action::ConfirmPod),
        None if world.lacks_pod() && is_marked => Some(Action::ConfirmAbsence),
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

//! What is to become of a Browser that nobody deleted and that has not ended.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use podloom_api::Phase;

use super::cause::Cause;
use super::failure;
use super::pod::SeenPod;
use super::render::{ConfigRef, ResolveError, render_pod, resolve};
use super::timeouts::Timeouts;
use super::world::{World, instant};
use crate::engine::plan::later;
use crate::mutator::PodRejection;

/// How long a Browser without a pod is tried at least from when it is first seen.
const FIRST_SIGHT: Duration = Duration::from_secs(30);

/// Where a session stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// It shall have this pod.
    Create(Box<Pod>),
    /// It has no pod for this cause, and may get one until then.
    Waits { cause: Cause, until: Timestamp },
    /// Its pod starts, and has until then.
    Starts { until: Timestamp },
    /// Its pod runs, or its node is silent.
    Runs,
    /// Its pod goes, so it goes too.
    Goes,
    /// It is over.
    Ended(Cause),
}

impl Verdict {
    /// Returns why the session has no pod, or ended.
    pub(crate) fn cause(&self) -> Option<&Cause> {
        match self {
            Self::Waits { cause, .. } | Self::Ended(cause) => Some(cause),
            Self::Create(_) | Self::Starts { .. } | Self::Runs | Self::Goes => None,
        }
    }
}

/// Decides where a session stands.
pub(crate) fn judge(world: &World, timeouts: &Timeouts, now: Timestamp) -> Verdict {
    match world.pod.as_deref() {
        None if world.had_pod() => lost(world),
        None => without_pod(world, timeouts, now),
        Some(pod) if !world.owns(pod) => taken(world),
        Some(pod) if pod.metadata.deletion_timestamp.is_some() => going(pod),
        Some(pod) => with_pod(world, pod, timeouts, now),
    }
}

fn without_pod(world: &World, timeouts: &Timeouts, now: Timestamp) -> Verdict {
    let created = world.created_at(now);
    let until = last_try(world, timeouts, now);
    if let Some(sentence) = &world.learned.metadata_refused
        && !world.has_finalizer()
    {
        let cause = Cause::MetadataRefused(sentence.clone());
        return wait_or_end(cause, until, now);
    }
    if let Some(refusal) = &world.learned.refusal {
        return refused(refusal, timeouts, until, now);
    }
    // One that is being deleted serves no more, as the statuses of its neighbours say too.
    let readable = world
        .configs
        .iter()
        .filter_map(|config| config.0.as_ref().ok())
        .filter(|config| config.metadata.deletion_timestamp.is_none());
    let configs: Vec<ConfigRef<'_>> = readable.map(ConfigRef::from).collect();
    let resolved = match resolve(&configs, &world.browser.spec) {
        Ok(resolved) => resolved,
        Err(error) => {
            // After a restart, of the API server too, configurations may come back after the Browsers that ask for them.
            let seen = world.first_seen.map_or(created, |seen| seen.max(created));
            return unresolved(&error, later(seen, timeouts.config_grace), now);
        }
    };
    let browser = &world.browser;
    match render_pod(world.api, &browser.metadata, &browser.spec, &resolved) {
        Ok(pod) => Verdict::Create(Box::new(pod)),
        Err(error) => Verdict::Ended(Cause::from(&error)),
    }
}

/// Until when a pod that cannot be created is tried: until its time is over, and for a moment from the first sight, since a Browser
/// may be old when this process starts, and the first refusal a passing one.
fn last_try(world: &World, timeouts: &Timeouts, now: Timestamp) -> Timestamp {
    let until = later(world.created_at(now), timeouts.pod_creation);
    let grace = FIRST_SIGHT.min(timeouts.pod_creation);
    let seen = world.first_seen.map(|seen| later(seen, grace));
    seen.map_or(until, |seen| until.max(seen))
}

/// Files are often applied together, so a young Browser waits for its configuration.
fn unresolved(error: &ResolveError, until: Timestamp, now: Timestamp) -> Verdict {
    match error {
        ResolveError::NotFound(_) => wait_or_end(Cause::from(error), until, now),
        ResolveError::Invalid { .. } => Verdict::Ended(Cause::from(error)),
    }
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
        PodRejection::Broken(_) | PodRejection::Forbidden(_) => {
            wait_or_end(Cause::from(refusal), until, now)
        }
    }
}

/// What may still change is tried again until the Browser's time is over.
fn wait_or_end(cause: Cause, until: Timestamp, now: Timestamp) -> Verdict {
    if now < until {
        Verdict::Waits { cause, until }
    } else {
        Verdict::Ended(cause)
    }
}

fn with_pod(world: &World, pod: &SeenPod, timeouts: &Timeouts, now: Timestamp) -> Verdict {
    match pod.status.phase {
        Some(Phase::Running) => failure::of_running(pod).map_or(Verdict::Runs, Verdict::Ended),
        Some(Phase::Unknown) => Verdict::Runs,
        Some(Phase::Succeeded) => Verdict::Ended(Cause::Completed),
        Some(Phase::Failed) => Verdict::Ended(failure::of_failed(pod)),
        Some(Phase::Pending) | None => pending(world, pod, timeouts, now),
    }
}

fn pending(world: &World, pod: &SeenPod, timeouts: &Timeouts, now: Timestamp) -> Verdict {
    if let Some(cause) = failure::of_pending(pod) {
        return Verdict::Ended(cause);
    }
    let until = due(pod, timeouts, now);
    let until = world
        .learned
        .late_until
        .map_or(until, |late| until.max(late));
    if now < until {
        return Verdict::Starts { until };
    }
    Verdict::Ended(Cause::CreationTimeout {
        timeout: timeouts.pod_creation,
        missing: failure::waits_for(pod),
    })
}

/// Until when a pod has to run: its time counts from its own creation, so that one which was made late, because its chain broke or
/// a quota was full, gets it too.
pub(crate) fn due(pod: &SeenPod, timeouts: &Timeouts, now: Timestamp) -> Timestamp {
    let made = instant(pod.metadata.creation_timestamp.as_ref(), now);
    later(made, timeouts.pod_creation)
}

/// Whoever deletes a pod means its session. A pod that its node or a more important one drives out did not want to go, and its
/// session shows why before it goes too.
fn going(pod: &SeenPod) -> Verdict {
    let disruption = failure::of_disruption(pod).map(Cause::Disrupted);
    disruption.map_or(Verdict::Goes, Verdict::Ended)
}

fn lost(world: &World) -> Verdict {
    let disruption = world.disruption().map(Cause::Disrupted);
    Verdict::Ended(disruption.unwrap_or(Cause::PodLost))
}

fn taken(world: &World) -> Verdict {
    let pod = world.name().to_owned();
    Verdict::Ended(Cause::NameTaken { pod })
}

//! What is to become of a Browser that nobody deleted and that has not ended.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use podloom_api::names;

use super::failure::{self, Cause, Exit};
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
    /// It has no pod yet, and may get one until then.
    Waits {
        obstacle: Obstacle,
        until: Timestamp,
    },
    /// Its pod starts, and has until then.
    Starts { until: Timestamp },
    /// Its pod runs, or its node is silent.
    Runs,
    /// Its pod goes, so it goes too.
    Goes,
    /// It is over.
    Ended(End),
}

/// What keeps a pod from being created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// There is no configuration yet.
    Config(String),
    /// A plugin breaks.
    Chain(String),
    /// The API server does not let the pod in.
    Admission(String),
    /// The API server does not let us set the finalizer, without which no pod is created: it could be left behind.
    Metadata(String),
}

/// How a session ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) outcome: Outcome,
    pub(crate) cause: Cause,
    /// The reason of the Event that tells it.
    pub(crate) event: &'static str,
}

/// Whether it ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Succeeded,
    Failed,
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
        return unmarked(sentence, until, now);
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
        Err(error) => failed(error.reason(), error.to_string(), error.reason()),
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
        ResolveError::NotFound(_) if now < until => Verdict::Waits {
            obstacle: Obstacle::Config(error.to_string()),
            until,
        },
        ResolveError::NotFound(_) | ResolveError::Invalid { .. } => failed(
            error.reason(),
            error.to_string(),
            names::event::CONFIG_NOT_FOUND,
        ),
    }
}

/// A policy may still change, so this is tried again until the Browser's time is over.
fn unmarked(sentence: &str, until: Timestamp, now: Timestamp) -> Verdict {
    let message = format!("cannot set finalizer and labels: {sentence}");
    if now < until {
        return Verdict::Waits {
            obstacle: Obstacle::Metadata(message),
            until,
        };
    }
    let reason = names::reason::METADATA_REFUSED;
    failed(reason, message, reason)
}

fn refused(
    refusal: &PodRejection,
    timeouts: &Timeouts,
    until: Timestamp,
    now: Timestamp,
) -> Verdict {
    let message = refusal.message().to_owned();
    match refusal {
        PodRejection::Denied(_) => {
            let reason = names::reason::MUTATION_DENIED;
            failed(reason, message, reason)
        }
        PodRejection::Invalid(_) => failed(
            names::reason::BROWSER_POD_SPEC,
            message,
            names::event::POD_FAILED,
        ),
        PodRejection::Broken(_) if now < until => Verdict::Waits {
            obstacle: Obstacle::Chain(message),
            until,
        },
        PodRejection::Broken(_) => {
            let reason = names::reason::MUTATION_FAILED;
            failed(reason, message, reason)
        }
        PodRejection::Forbidden(_) if now < until => Verdict::Waits {
            obstacle: Obstacle::Admission(message),
            until,
        },
        PodRejection::Forbidden(_) => {
            let reason = names::reason::CREATION_TIMEOUT;
            let exceeded = failure::of_timeout(None, timeouts.pod_creation).message;
            failed(reason, format!("{exceeded}, {message}"), reason)
        }
    }
}

fn with_pod(world: &World, pod: &SeenPod, timeouts: &Timeouts, now: Timestamp) -> Verdict {
    match pod.status.phase.as_deref() {
        Some("Running") => match failure::of_running(pod) {
            None => Verdict::Runs,
            Some(Exit::Well(cause)) => ended(Outcome::Succeeded, cause, names::event::COMPLETED),
            Some(Exit::Badly(cause)) => ended(Outcome::Failed, cause, names::event::POD_FAILED),
        },
        Some("Unknown") => Verdict::Runs,
        Some("Succeeded") => {
            let cause = Cause {
                reason: names::reason::COMPLETED.to_owned(),
                message: "all containers ended well".to_owned(),
            };
            ended(Outcome::Succeeded, cause, names::event::COMPLETED)
        }
        Some("Failed") => ended(
            Outcome::Failed,
            failure::of_failed(pod),
            names::event::POD_FAILED,
        ),
        _ => pending(world, pod, timeouts, now),
    }
}

fn pending(world: &World, pod: &SeenPod, timeouts: &Timeouts, now: Timestamp) -> Verdict {
    if let Some(cause) = failure::of_pending(pod) {
        return ended(Outcome::Failed, cause, names::event::POD_FAILED);
    }
    let until = due(pod, timeouts, now);
    let until = world
        .learned
        .late_until
        .map_or(until, |late| until.max(late));
    if now < until {
        return Verdict::Starts { until };
    }
    let cause = failure::of_timeout(Some(pod), timeouts.pod_creation);
    ended(Outcome::Failed, cause, names::reason::CREATION_TIMEOUT)
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
    failure::of_disruption(pod).map_or(Verdict::Goes, |cause| {
        ended(Outcome::Failed, cause, names::event::POD_DISRUPTED)
    })
}

fn lost(world: &World) -> Verdict {
    if let Some(cause) = world.disruption() {
        return ended(Outcome::Failed, cause, names::event::POD_DISRUPTED);
    }
    let reason = names::reason::POD_LOST;
    failed(
        reason,
        "the pod is gone, and a session has one pod only".to_owned(),
        reason,
    )
}

fn taken(world: &World) -> Verdict {
    let reason = names::reason::POD_NAME_CONFLICT;
    let message = format!(
        "pod {} exists and is not of this Browser: delete it, or create a Browser of another name",
        world.name()
    );
    failed(reason, message, reason)
}

fn failed(reason: &str, message: String, event: &'static str) -> Verdict {
    let cause = Cause {
        reason: reason.to_owned(),
        message,
    };
    ended(Outcome::Failed, cause, event)
}

fn ended(outcome: Outcome, cause: Cause, event: &'static str) -> Verdict {
    Verdict::Ended(End {
        outcome,
        cause,
        event,
    })
}

//! What happens once to a session: a line in the log for each, and what is counted.

use jiff::Timestamp;
use kube::core::ObjectMeta;
use podloom_api::Phase;
use podloom_engine::TRACES;

use super::action::{Action, ActionOutcome};
use super::cause::Cause;
use super::world::World;

/// Something that happens once to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Milestone<'a> {
    /// Its pod is running.
    Running,
    /// It ended, and its status says why.
    Ended(&'a Cause),
    /// Its Browser is deleted, and no longer held by our finalizer.
    Deleted,
}

impl<'a> Milestone<'a> {
    /// Returns the milestone that an action has reached, if it has reached one.
    ///
    /// A Browser that was already gone reaches none: this may be a second attempt, and the first one was logged.
    pub(super) fn of(world: &World, action: &'a Action, outcome: &ActionOutcome) -> Option<Self> {
        match (action, outcome) {
            (Action::WriteStatus(write), ActionOutcome::StatusWritten(_)) => match &write.end {
                Some(cause) => Some(Self::Ended(cause)),
                None => starts_running(world, write.status.phase).then_some(Self::Running),
            },
            (Action::SetMetadata(_), ActionOutcome::Marked { .. }) => {
                world.is_deleted().then_some(Self::Deleted)
            }
            _ => None,
        }
    }

    /// Logs it, with the seconds since the Browser was created.
    pub(super) fn log(self, world: &World, age: Option<f64>) {
        let metadata = &world.browser.metadata;
        let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
        // A pod is named after its Browser.
        let pod = name.filter(|_| world.own_pod().is_some() || world.had_pod());
        let seconds = age;
        match self {
            Self::Running => tracing::info!(namespace, name, pod, seconds, "session is running"),
            Self::Ended(cause) if cause.phase() == Phase::Succeeded => {
                let reason = cause.reason();
                tracing::info!(namespace, name, pod, reason, seconds, "session completed");
            }
            Self::Ended(cause) => {
                let reason = cause.reason();
                tracing::info!(namespace, name, pod, reason, seconds, "session failed");
            }
            Self::Deleted => {
                let reason = world.status().and_then(|status| status.reason.as_deref());
                tracing::info!(namespace, name, pod, reason, seconds, "session deleted");
            }
        }
    }

    /// Adds what took until now to the session's trace: its start and that of its pod, or all of it.
    pub(super) fn trace(self, world: &World, age: Option<f64>, now: Timestamp) {
        let metadata = &world.browser.metadata;
        let (uid, namespace, name) = (&metadata.uid, &metadata.namespace, &metadata.name);
        let ended = |step, error| tracing::trace!(target: TRACES, trace = uid, step, seconds = age, namespace, name, error);
        match self {
            Self::Running => {
                ended("session starts", None);
                let pod = world.own_pod();
                let seconds = pod.and_then(|pod| age_of(&pod.metadata, now));
                tracing::trace!(target: TRACES, trace = uid, step = "pod starts", seconds);
            }
            Self::Ended(cause) => {
                let is_failed = cause.phase() == Phase::Failed;
                ended("session", is_failed.then(|| cause.event()));
            }
            Self::Deleted => {}
        }
    }
}

/// Returns the seconds since the Browser was created; none if it does not say when.
pub(super) fn age(world: &World, now: Timestamp) -> Option<f64> {
    age_of(&world.browser.metadata, now)
}

fn age_of(metadata: &ObjectMeta, now: Timestamp) -> Option<f64> {
    let created = metadata.creation_timestamp.as_ref()?;
    Some(now.duration_since(created.0).as_secs_f64().max(0.0))
}

/// Whether a status says for the first time that the pod runs. One on a silent node was running before.
fn starts_running(world: &World, phase: Option<Phase>) -> bool {
    let ran = matches!(world.phase(), Some(Phase::Running | Phase::Unknown));
    phase == Some(Phase::Running) && !ran
}

//! What is counted of Browsers.

use std::fmt;

use jiff::Timestamp;
use kube::core::ObjectMeta;
use podloom_api::{BrowserObject, Phase};
use podloom_engine::TRACES;
use podloom_engine::metrics::{NONE, Objects};
use podloom_metrics::{By, Histograms, gauges, histogram, metrics};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::cause::Cause;
use super::warm::Cold;
use super::world::World;
use super::world::{Action, ActionOutcome};

/// From a tenth of a second to a quarter of an hour, doubling.
const START_BUCKETS: Histograms = Histograms(0.1, 2.0, 14);

/// How a session began for which there might have been a warm pod: with one, or why without.
const STARTS: [[&str; 1]; 4] = [["warm"], ["none_ready"], ["differs"], ["refused"]];

/// Returns how it began, for the metric.
pub(super) fn start(cold: Option<&Cold>) -> &'static str {
    let [[warm], [none_ready], [differs], [refused]] = STARTS;
    match cold {
        None => warm,
        Some(Cold::NoneReady) => none_ready,
        Some(Cold::Differs(_)) => differs,
        Some(Cold::Refused(_)) => refused,
    }
}

/// The name of the controller.
pub(super) const CONTROLLER: &str = "browser";

metrics! {
    /// Starts and failures of sessions.
    pub struct BrowserMetrics {
        start: Histogram = "browser_start" Seconds, "Time from a Browser's creation until it runs", histogram(START_BUCKETS);
        pub(super) sessions: By<1> = "browser_warm_sessions", "Sessions of browsers with warm pods, by whether they took one (warm), or why not", By::new(["start"]).from_zero(STARTS);
        failures: By<1> = "browser_failures", "Browsers that failed, by the reason of their Event", By::new(["reason"]);
    }
}

/// The Browsers by phase once more, under a name of their own: `objects` counts all kinds.
#[derive(Debug)]
struct Browsers(Objects);

impl BrowserMetrics {
    /// Registers all of them, and declares the phases.
    pub fn declared(registry: &mut Registry, objects: &Objects) -> Self {
        let phases = [NONE].into_iter().chain(Phase::ALL.map(Phase::as_str));
        objects.declare(CONTROLLER, phases.collect());
        registry.register_collector(Box::new(Browsers(objects.clone())));
        Self::register(registry)
    }

    /// Counts a milestone of a session whose Browser has this age in seconds.
    pub(super) fn count(&self, milestone: Milestone<'_>, age: Option<f64>) {
        match milestone {
            Milestone::Running => self.start.observe(age.unwrap_or_default()),
            Milestone::Ended(cause) if cause.phase() == Phase::Failed => {
                self.failures.of([cause.event()]).inc();
            }
            Milestone::Ended(_) | Milestone::Deleted => {}
        }
    }
}

impl Collector for Browsers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let counts = self.0.counts(CONTROLLER).into_iter();
        let series = counts.map(|(phase, count)| ([("phase", phase)], count));
        gauges(&mut encoder, "browsers", "Browsers by phase", series)
    }
}

/// The phase of a Browser.
pub(super) fn phase(browser: &BrowserObject) -> &'static str {
    let phase = browser.status.as_ref().and_then(|status| status.phase);
    phase.map_or(NONE, Phase::as_str)
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text;

    use super::*;

    #[test]
    fn every_phase_is_there_before_the_first_browser() {
        let mut registry = Registry::default();
        let objects = Objects::default();
        registry.register_collector(Box::new(objects.clone()));
        let _metrics = BrowserMetrics::declared(&mut registry, &objects);
        let mut encoded = String::new();
        text::encode(&mut encoded, &registry).expect("encoded");
        for phase in Phase::ALL.map(Phase::as_str).into_iter().chain([NONE]) {
            for line in [
                format!("browsers{{phase=\"{phase}\"}} 0\n"),
                format!("objects{{controller=\"browser\",phase=\"{phase}\"}} 0\n"),
            ] {
                assert!(encoded.contains(&line), "{line} in {encoded}");
            }
        }
    }
}

// What happens once to a session: a line in the log for each, and what is counted.

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
            (Action::WriteStatus { status, end }, ActionOutcome::StatusWritten(_)) => match end {
                Some(cause) => Some(Self::Ended(cause)),
                None => starts_running(world, status.phase).then_some(Self::Running),
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
        let had = world.own_pod().is_some() || world.had_pod();
        let pod = had.then(|| world.pod_name());
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
        let ended = |step, error| tracing::trace!(target: TRACES, trace = uid, step, seconds = age, namespace, name, error.type = error);
        match self {
            Self::Running => {
                ended("session starts", None);
                // A warm pod started before anybody wanted the session.
                let pod = world.own_pod().filter(|pod| pod.warm.is_none());
                if let Some(pod) = pod {
                    let seconds = age_of(&pod.metadata, now);
                    let pod_uid = pod.metadata.uid.as_deref();
                    tracing::trace!(target: TRACES, trace = uid, step = "pod starts", seconds, namespace, pod = name, pod_uid);
                }
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

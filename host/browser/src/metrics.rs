//! What is counted of Browsers.

use std::fmt;

use podloom_api::{BrowserObject, Phase};
use podloom_engine::metrics::{NONE, Objects};
use podloom_metrics::{By, Histograms, gauges, histogram, metrics};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::milestone::Milestone;

/// From a tenth of a second to a quarter of an hour, doubling.
const START_BUCKETS: Histograms = Histograms(0.1, 2.0, 14);

/// The name of the controller.
pub(super) const CONTROLLER: &str = "browser";

metrics! {
    /// Starts and failures of sessions.
    pub struct BrowserMetrics {
        start: Histogram = "browser_start" Seconds, "Time from a Browser's creation until it runs", histogram(START_BUCKETS);
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

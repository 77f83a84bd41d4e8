//! What is counted of Browsers.

use std::fmt;
use std::sync::Arc;

use kube::runtime::reflector::Store;
use podloom_api::{BrowserObject, Phase};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use super::milestone::Milestone;
use crate::engine::metrics::{Objects, Phases};
use crate::engine::readable::Readable;

/// From a tenth of a second to a quarter of an hour, doubling.
const START_BUCKETS: (f64, f64, u16) = (0.1, 2.0, 14);

/// The name of the controller.
pub(super) const CONTROLLER: &str = "browser";
/// How a Browser without a status is counted.
const NO_PHASE: &str = "None";

/// Starts and failures of sessions.
#[derive(Clone)]
pub(crate) struct BrowserMetrics {
    start: Histogram,
    failures: Family<Reason, Counter>,
}

/// Why a session failed: the reason of its Event, from a closed set.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

/// The Browsers by phase once more, under a name of their own: `objects` counts all kinds.
#[derive(Debug)]
struct Browsers(Objects);

impl BrowserMetrics {
    pub(crate) fn register(registry: &mut Registry, objects: &Objects) -> Self {
        let phases = [NO_PHASE].into_iter().chain(Phase::ALL.map(Phase::as_str));
        objects.declare(CONTROLLER, phases.collect());
        registry.register_collector(Box::new(Browsers(objects.clone())));
        let (first, factor, count) = START_BUCKETS;
        let start = Histogram::new(exponential_buckets(first, factor, count));
        let failures = Family::default();
        registry.register_with_unit(
            "browser_start",
            "Time from a Browser's creation until it runs",
            Unit::Seconds,
            start.clone(),
        );
        registry.register(
            "browser_failures",
            "Browsers that failed, by the reason of their Event",
            failures.clone(),
        );
        Self { start, failures }
    }

    /// Counts a milestone of a session whose Browser has this age in seconds.
    pub(super) fn count(&self, milestone: Milestone<'_>, age: Option<f64>) {
        match milestone {
            Milestone::Running => self.start.observe(age.unwrap_or_default()),
            Milestone::Ended(cause) if cause.phase() == Phase::Failed => {
                let reason = cause.event();
                self.failures.get_or_create(&Reason { reason }).inc();
            }
            Milestone::Ended(_) | Milestone::Deleted => {}
        }
    }
}

impl Collector for Browsers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut browsers =
            encoder.encode_descriptor("browsers", "Browsers by phase", None, MetricType::Gauge)?;
        for (phase, count) in self.0.counts(CONTROLLER) {
            let labels = [("phase", phase)];
            ConstGauge::new(count).encode(browsers.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

/// Returns the phase of each Browser of a cache, for as long as it is asked.
pub(super) fn phases(browsers: Store<Readable<BrowserObject>>) -> Phases {
    let phase = |browser: &Arc<Readable<BrowserObject>>| {
        let status = browser
            .0
            .as_ref()
            .ok()
            .and_then(|browser| browser.status.as_ref());
        let phase = status.and_then(|status| status.phase);
        phase.map_or(NO_PHASE, Phase::as_str)
    };
    Arc::new(move || browsers.state().iter().map(phase).collect())
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
        let _metrics = BrowserMetrics::register(&mut registry, &objects);
        let mut encoded = String::new();
        text::encode(&mut encoded, &registry).expect("encoded");
        for phase in Phase::ALL.map(Phase::as_str).into_iter().chain([NO_PHASE]) {
            for line in [
                format!("browsers{{phase=\"{phase}\"}} 0\n"),
                format!("objects{{controller=\"browser\",phase=\"{phase}\"}} 0\n"),
            ] {
                assert!(encoded.contains(&line), "{line} in {encoded}");
            }
        }
    }
}

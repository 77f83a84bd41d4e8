//! What all controllers count.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use kube::runtime::reflector::Store;
use podloom_api::{BrowserObject, Phase};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::browser::BrowserMetrics;
use crate::drive::{Pulses, Queue};
use crate::readable::Readable;

/// From a tenth of a millisecond to about half a minute, doubling.
const RECONCILE_BUCKETS: (f64, f64, u16) = (0.0001, 2.0, 19);

/// How a Browser without a status is counted.
const NO_PHASE: &str = "None";

/// Metrics of the controllers; cheap to clone, registered once.
#[derive(Clone)]
pub struct ControllerMetrics {
    duration: Family<Controller, Histogram, fn() -> Histogram>,
    total: Family<Reconcile, Counter>,
    errors: Family<Failure, Counter>,
    watch_errors: Family<Watch, Counter>,
    queues: Family<Controller, Gauge>,
    pub(crate) pulses: Pulses,
    phases: Phases,
    /// Events on objects of the cluster.
    pub events: EventMetrics,
    pub(crate) browsers: BrowserMetrics,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Controller {
    controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reconcile {
    controller: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Failure {
    controller: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Watch {
    kind: &'static str,
}

impl ControllerMetrics {
    /// Registers all metrics of the controllers. Call it once: a second set would be told beside the first.
    pub fn register(registry: &mut Registry) -> Self {
        let new_histogram: fn() -> Histogram = || {
            let (first, factor, count) = RECONCILE_BUCKETS;
            Histogram::new(exponential_buckets(first, factor, count))
        };
        let metrics = Self {
            duration: Family::new_with_constructor(new_histogram),
            total: Family::default(),
            errors: Family::default(),
            watch_errors: Family::default(),
            queues: Family::default(),
            pulses: Pulses::default(),
            phases: Phases::default(),
            events: EventMetrics::register(registry),
            browsers: BrowserMetrics::register(registry),
        };
        registry.register_with_unit(
            "reconcile_duration",
            "How long a pass over an object took",
            Unit::Seconds,
            metrics.duration.clone(),
        );
        registry.register("reconcile", "Passes over objects", metrics.total.clone());
        registry.register(
            "reconcile_errors",
            "Passes over objects that have to be repeated",
            metrics.errors.clone(),
        );
        registry.register(
            "watch_errors",
            "Watches that broke and were restarted",
            metrics.watch_errors.clone(),
        );
        registry.register(
            "reconcile_queue_depth",
            "Objects that were woken and whose pass has not begun",
            metrics.queues.clone(),
        );
        registry.register_collector(Box::new(metrics.pulses.clone()));
        registry.register_collector(Box::new(metrics.phases.clone()));
        metrics
    }

    /// Counts one pass; an error is told by its reason.
    pub(crate) fn reconciled(
        &self,
        controller: &'static str,
        begun: Instant,
        error: Option<&'static str>,
    ) {
        let took = begun.elapsed().as_secs_f64();
        self.duration
            .get_or_create(&Controller { controller })
            .observe(took);
        let outcome = if error.is_none() { "success" } else { "error" };
        self.total
            .get_or_create(&Reconcile {
                controller,
                outcome,
            })
            .inc();
        if let Some(reason) = error {
            let failure = Failure { controller, reason };
            self.errors.get_or_create(&failure).inc();
        }
    }

    /// Returns a queue that is counted as the controller's.
    pub(crate) fn queue(&self, controller: &'static str) -> Queue {
        Queue::new(self.queues.get_or_create_owned(&Controller { controller }))
    }

    /// Counts a watch that broke.
    pub(crate) fn watch_broke(&self, kind: &'static str) {
        self.watch_errors.get_or_create(&Watch { kind }).inc();
    }

    /// Counts the Browsers of a cache by phase, until what is returned is dropped.
    pub(crate) fn count_browsers(&self, browsers: BrowserStore) -> Counted {
        self.phases.with(|stores| stores.push(browsers));
        Counted(self.phases.clone())
    }
}

/// What became of Events.
#[derive(Clone)]
pub struct EventMetrics(Family<Told, Counter>);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Told {
    outcome: &'static str,
}

/// What became of one Event.
#[derive(Clone, Copy)]
pub(crate) enum EventOutcome {
    Sent,
    /// The API server refused it, or did not answer in time.
    Failed,
    /// It was never sent, since too many others waited.
    Dropped,
}

impl EventOutcome {
    const ALL: [Self; 3] = [Self::Sent, Self::Failed, Self::Dropped];

    fn label(self) -> Told {
        let outcome = match self {
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
        };
        Told { outcome }
    }
}

impl EventMetrics {
    fn register(registry: &mut Registry) -> Self {
        let events = Family::<Told, Counter>::default();
        for outcome in EventOutcome::ALL {
            drop(events.get_or_create(&outcome.label()));
        }
        registry.register(
            "events",
            "Events on objects of the cluster: sent, failed, or dropped because too many waited",
            events.clone(),
        );
        Self(events)
    }

    /// Counts one Event.
    pub(crate) fn count(&self, outcome: EventOutcome) {
        self.0.get_or_create(&outcome.label()).inc();
    }
}

type BrowserStore = Store<Readable<BrowserObject>>;

/// Counts objects when somebody asks.
#[derive(Clone, Default)]
struct Phases(Arc<Mutex<Vec<BrowserStore>>>);

/// Stops counting when it is dropped: the caches of a controller that has stopped grow stale.
pub(crate) struct Counted(Phases);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.with(Vec::clear);
    }
}

impl Phases {
    fn with<T>(&self, change: impl FnOnce(&mut Vec<BrowserStore>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn count(&self) -> BTreeMap<&'static str, i64> {
        // A phase without Browsers is 0 and not missing, or rates and alerts would see nothing.
        let phases = Phase::ALL.map(Phase::as_str);
        let mut counts: BTreeMap<_, _> = [NO_PHASE]
            .into_iter()
            .chain(phases)
            .map(|phase| (phase, 0))
            .collect();
        let browsers = self.with(|stores| stores.iter().flat_map(Store::state).collect::<Vec<_>>());
        for browser in browsers {
            let status = browser
                .0
                .as_ref()
                .ok()
                .and_then(|browser| browser.status.as_ref());
            let phase = status.and_then(|status| status.phase);
            *counts
                .entry(phase.map_or(NO_PHASE, Phase::as_str))
                .or_insert(0) += 1;
        }
        counts
    }
}

impl fmt::Debug for Phases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Phases").finish_non_exhaustive()
    }
}

impl Collector for Phases {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let counts = self.count();
        let mut browsers =
            encoder.encode_descriptor("browsers", "Browsers by phase", None, MetricType::Gauge)?;
        for (phase, count) in &counts {
            let labels = [("phase", *phase)];
            ConstGauge::new(*count).encode(browsers.encode_family(&labels)?)?;
        }
        let mut objects = encoder.encode_descriptor(
            "objects",
            "Objects by controller and phase",
            None,
            MetricType::Gauge,
        )?;
        for (phase, count) in &counts {
            let labels = [("controller", crate::run::BROWSER), ("phase", *phase)];
            ConstGauge::new(*count).encode(objects.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text;

    use super::*;

    #[test]
    fn every_phase_is_there_before_the_first_browser() {
        let mut registry = Registry::default();
        let _metrics = ControllerMetrics::register(&mut registry);
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

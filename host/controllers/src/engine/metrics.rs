//! Metrics of all controllers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use kube::Client;
use podloom_turns::lock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use super::queue::Queue;
use super::watch_age::WatchAges;

/// From a tenth of a millisecond to about half a minute, doubling.
const RECONCILE_BUCKETS: (f64, f64, u16) = (0.0001, 2.0, 19);

/// Metrics of the engine; cheap to clone, registered once.
#[derive(Clone)]
pub struct EngineMetrics {
    duration: Family<ControllerLabels, Histogram, fn() -> Histogram>,
    total: Family<ReconcileLabels, Counter>,
    errors: Family<ErrorLabels, Counter>,
    watch_errors: Family<WatchLabels, Counter>,
    queues: Family<ControllerLabels, Gauge>,
    watch_ages: WatchAges,
    /// Objects by controller and phase.
    pub objects: Objects,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabels {
    controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReconcileLabels {
    controller: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorLabels {
    controller: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WatchLabels {
    kind: &'static str,
}

impl EngineMetrics {
    /// Registers all metrics of the engine. Call it once: a second set would appear beside the first.
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
            watch_ages: WatchAges::default(),
            objects: Objects::default(),
        };
        registry.register_with_unit(
            "reconcile_duration",
            "Duration of a reconcile pass",
            Unit::Seconds,
            metrics.duration.clone(),
        );
        registry.register(
            "reconcile",
            "Reconcile passes by outcome",
            metrics.total.clone(),
        );
        registry.register(
            "reconcile_errors",
            "Reconcile passes that failed and are repeated, by reason",
            metrics.errors.clone(),
        );
        registry.register(
            "watch_errors",
            "Watches that broke and were restarted",
            metrics.watch_errors.clone(),
        );
        registry.register(
            "reconcile_queue_depth",
            "Objects that wait for a reconcile pass",
            metrics.queues.clone(),
        );
        registry.register_collector(Box::new(metrics.watch_ages.clone()));
        registry.register_collector(Box::new(metrics.objects.clone()));
        metrics
    }

    /// Returns a client for one watch of a kind, whose age is measured.
    pub fn watch_client(&self, client: &Client, kind: &'static str) -> Client {
        self.watch_ages.client(client, kind)
    }

    /// Counts one pass, and an error by its reason.
    pub(super) fn reconciled(
        &self,
        controller: &'static str,
        begun: Instant,
        error: Option<&'static str>,
    ) {
        let took = begun.elapsed().as_secs_f64();
        self.duration
            .get_or_create(&ControllerLabels { controller })
            .observe(took);
        let outcome = if error.is_none() { "success" } else { "error" };
        self.total
            .get_or_create(&ReconcileLabels {
                controller,
                outcome,
            })
            .inc();
        if let Some(reason) = error {
            let labels = ErrorLabels { controller, reason };
            self.errors.get_or_create(&labels).inc();
        }
    }

    /// Returns a queue whose depth is the controller's metric.
    pub(super) fn queue(&self, controller: &'static str) -> Queue {
        Queue::new(
            self.queues
                .get_or_create_owned(&ControllerLabels { controller }),
        )
    }

    /// Counts a watch that broke.
    pub(super) fn watch_broke(&self, kind: &'static str) {
        self.watch_errors.get_or_create(&WatchLabels { kind }).inc();
    }
}

/// The number of objects in each phase.
pub type Counts = BTreeMap<&'static str, i64>;

/// Returns the phase of each object in a cache.
pub type Phases = Arc<dyn Fn() -> Vec<&'static str> + Send + Sync>;

/// Counts objects by controller and phase, at each scrape.
#[derive(Clone, Default)]
pub struct Objects(Arc<Mutex<BTreeMap<&'static str, Counting>>>);

/// The objects of one controller.
struct Counting {
    /// All phases. One without objects is 0 and not missing, so that rates and alerts work.
    phases: Vec<&'static str>,
    /// One for each watch scope.
    caches: Vec<Phases>,
}

/// Stops counting when it is dropped, since the cache of a stopped controller is stale.
pub struct Counted {
    objects: Objects,
    controller: &'static str,
    cache: Phases,
}

impl Objects {
    /// Declares the phases of a controller's objects, each with a count of 0.
    pub fn declare(&self, controller: &'static str, phases: Vec<&'static str>) {
        let counting = Counting {
            phases,
            caches: Vec::new(),
        };
        lock(&self.0).insert(controller, counting);
    }

    /// Counts the objects of a cache until the returned value is dropped. The controller must be declared.
    #[must_use]
    pub fn count(&self, controller: &'static str, cache: Phases) -> Counted {
        if let Some(counting) = lock(&self.0).get_mut(controller) {
            counting.caches.push(Arc::clone(&cache));
        }
        Counted {
            objects: self.clone(),
            controller,
            cache,
        }
    }

    /// Returns the number of a controller's objects in each phase.
    #[must_use]
    pub fn counts(&self, controller: &'static str) -> Counts {
        let (mut counts, caches) = match lock(&self.0).get(controller) {
            Some(counting) => {
                let none = counting.phases.iter().map(|phase| (*phase, 0));
                (none.collect::<Counts>(), counting.caches.clone())
            }
            None => return Counts::new(),
        };
        for phase in caches.iter().flat_map(|cache| cache()) {
            *counts.entry(phase).or_insert(0) += 1;
        }
        counts
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(counting) = lock(&self.objects.0).get_mut(self.controller) {
            let others = |cache: &Phases| !Arc::ptr_eq(cache, &self.cache);
            counting.caches.retain(others);
        }
    }
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Objects").finish_non_exhaustive()
    }
}

impl Collector for Objects {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let controllers: Vec<&'static str> = lock(&self.0).keys().copied().collect();
        let mut objects = encoder.encode_descriptor(
            "objects",
            "Objects by controller and phase",
            None,
            MetricType::Gauge,
        )?;
        for controller in controllers {
            for (phase, count) in self.counts(controller) {
                let labels = [("controller", controller), ("phase", phase)];
                ConstGauge::new(count).encode(objects.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

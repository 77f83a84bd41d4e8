//! Metrics of all controllers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use kube::Client;
use podloom_metrics::{By, Histograms, gauges, metrics};
use podloom_turns::lock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::queue::Queue;
use super::watch::WatchAges;

/// From a tenth of a millisecond to about half a minute, doubling.
const RECONCILE_BUCKETS: Histograms = Histograms(0.0001, 2.0, 19);

/// How an object without a status is counted.
pub const NONE: &str = "None";
/// How one that our types cannot hold is counted.
pub const UNREADABLE: &str = "Unreadable";

metrics! {
    /// Metrics of the engine; cheap to clone, registered once.
    pub struct EngineMetrics(
        watch_ages: WatchAges,
        /// Objects by controller and phase.
        pub objects: Objects,
    ) {
        duration: By<1, Histogram, Histograms> = "reconcile_duration" Seconds, "Duration of a reconcile pass", By::histograms(["controller"], RECONCILE_BUCKETS);
        total: By<2> = "reconcile", "Reconcile passes by outcome", By::new(["controller", "outcome"]);
        errors: By<2> = "reconcile_errors", "Reconcile passes that failed and are repeated, by reason", By::new(["controller", "reason"]);
        watch_errors: By<1> = "watch_errors", "Watches that broke and were restarted", By::new(["kind"]);
        queues: By<1, Gauge> = "reconcile_queue_depth", "Objects that wait for a reconcile pass", By::new(["controller"]);
    }
}

impl EngineMetrics {
    /// Registers all metrics of the engine, with the objects by controller and phase. Call it once.
    pub fn collected(registry: &mut Registry) -> Self {
        let (watch_ages, objects) = (WatchAges::default(), Objects::default());
        registry.register_collector(Box::new(watch_ages.clone()));
        registry.register_collector(Box::new(objects.clone()));
        Self::register(registry, watch_ages, objects)
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
        self.duration.of([controller]).observe(took);
        let outcome = if error.is_none() { "success" } else { "error" };
        self.total.of([controller, outcome]).inc();
        if let Some(reason) = error {
            self.errors.of([controller, reason]).inc();
        }
    }

    /// Returns a queue whose depth is the controller's metric.
    pub(super) fn queue(&self, controller: &'static str) -> Queue {
        Queue::new(self.queues.of([controller]).clone())
    }

    /// Counts a watch that broke.
    pub(super) fn watch_broke(&self, kind: &'static str) {
        self.watch_errors.of([kind]).inc();
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
        let series = controllers.into_iter().flat_map(|controller| {
            let counts = self.counts(controller).into_iter();
            counts
                .map(move |(phase, count)| ([("controller", controller), ("phase", phase)], count))
        });
        gauges(
            &mut encoder,
            "objects",
            "Objects by controller and phase",
            series,
        )
    }
}

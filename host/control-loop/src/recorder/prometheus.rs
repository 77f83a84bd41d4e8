//! Metrics for Prometheus.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::{CallOutcome, HandleKind, Recorder};

/// From a millisecond, the wait in an idle queue, to five minutes, the default limit of a handler.
const BUCKETS: [f64; 15] = [
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
];

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// A [`Recorder`] that counts into a registry, for any number of loops: the label `loop` is their name.
///
/// Cheap to clone; clones count into the same metrics.
#[derive(Clone, Debug)]
pub struct LoopMetrics {
    queued: Family<Loop, Counter>,
    dequeued: Family<Loop, Counter>,
    queued_duration: Histograms<Loop>,
    list_duration: Histograms<Timed>,
    get_duration: Histograms<Timed>,
    handle_duration: Histograms<Handled>,
    depth: Family<Loop, Gauge>,
    in_flight: Family<Loop, Gauge>,
    retries: Family<Loop, Counter>,
    dropped: Family<Loop, Counter>,
    contended: Family<Loop, Counter>,
    restarts: Family<Loop, Counter>,
    panics: Family<Loop, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Loop {
    r#loop: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Timed {
    r#loop: String,
    success: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Handled {
    r#loop: String,
    kind: &'static str,
    success: &'static str,
}

impl LoopMetrics {
    /// Registers the metrics of loops, all of which begin with `loop_`.
    ///
    /// Call it once for a registry and share the result. A second call registers a second set: harmless, but the output then has each
    /// name and help text twice.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::new();
        metrics.register_counters(registry);
        metrics.register_durations(registry);
        registry.register(
            "loop_queue_depth",
            "Ids that are ready to be handled",
            metrics.depth.clone(),
        );
        registry.register(
            "loop_in_flight",
            "Ids that are being handled",
            metrics.in_flight.clone(),
        );
        metrics
    }

    fn new() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        Self {
            queued: Family::default(),
            dequeued: Family::default(),
            queued_duration: Family::new_with_constructor(histogram),
            list_duration: Family::new_with_constructor(histogram),
            get_duration: Family::new_with_constructor(histogram),
            handle_duration: Family::new_with_constructor(histogram),
            depth: Family::default(),
            in_flight: Family::default(),
            retries: Family::default(),
            dropped: Family::default(),
            contended: Family::default(),
            restarts: Family::default(),
            panics: Family::default(),
        }
    }

    fn register_counters(&self, registry: &mut Registry) {
        let counters = [
            ("queue_queued", "Times an id became ready", &self.queued),
            ("queue_dequeued", "Times an id was taken", &self.dequeued),
            ("retries", "Failures that are retried", &self.retries),
            ("dropped", "Ids that failed too often", &self.dropped),
            ("lock_contended", "Locks that were busy", &self.contended),
            ("watch_restarts", "Watches opened again", &self.restarts),
            ("panics", "Panics that were caught", &self.panics),
        ];
        for (name, help, counter) in counters {
            registry.register(format!("loop_{name}"), help, counter.clone());
        }
    }

    fn register_durations(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "loop_queued_duration",
            "How long ids were ready before they were taken",
            Unit::Seconds,
            self.queued_duration.clone(),
        );
        registry.register_with_unit(
            "loop_listerwatcher_list_duration",
            "How long lists took",
            Unit::Seconds,
            self.list_duration.clone(),
        );
        registry.register_with_unit(
            "loop_storage_get_duration",
            "How long reading objects took",
            Unit::Seconds,
            self.get_duration.clone(),
        );
        registry.register_with_unit(
            "loop_handle_duration",
            "How long handling ids took",
            Unit::Seconds,
            self.handle_duration.clone(),
        );
    }
}

impl Loop {
    fn named(name: &str) -> Self {
        Self {
            r#loop: name.to_owned(),
        }
    }
}

impl Timed {
    fn named(name: &str, outcome: CallOutcome) -> Self {
        Self {
            r#loop: name.to_owned(),
            success: outcome.as_str(),
        }
    }
}

impl Recorder for LoopMetrics {
    fn queue_queued(&self, name: &str, ids: u64) {
        self.queued.get_or_create(&Loop::named(name)).inc_by(ids);
    }

    fn queue_dequeued(&self, name: &str) {
        self.dequeued.get_or_create(&Loop::named(name)).inc();
    }

    fn queued_duration(&self, name: &str, took: Duration) {
        let histogram = self.queued_duration.get_or_create(&Loop::named(name));
        histogram.observe(took.as_secs_f64());
    }

    fn list_duration(&self, name: &str, took: Duration, outcome: CallOutcome) {
        let labels = Timed::named(name, outcome);
        let histogram = self.list_duration.get_or_create(&labels);
        histogram.observe(took.as_secs_f64());
    }

    fn get_duration(&self, name: &str, took: Duration, outcome: CallOutcome) {
        let labels = Timed::named(name, outcome);
        let histogram = self.get_duration.get_or_create(&labels);
        histogram.observe(took.as_secs_f64());
    }

    fn handle_duration(&self, name: &str, took: Duration, kind: HandleKind, outcome: CallOutcome) {
        let labels = Handled {
            r#loop: name.to_owned(),
            kind: kind.as_str(),
            success: outcome.as_str(),
        };
        let histogram = self.handle_duration.get_or_create(&labels);
        histogram.observe(took.as_secs_f64());
    }

    fn queue_depth(&self, name: &str, ids: usize) {
        let gauge = self.depth.get_or_create(&Loop::named(name));
        gauge.set(i64::try_from(ids).unwrap_or(i64::MAX));
    }

    fn in_flight(&self, name: &str, ids: usize) {
        let gauge = self.in_flight.get_or_create(&Loop::named(name));
        gauge.set(i64::try_from(ids).unwrap_or(i64::MAX));
    }

    fn retried(&self, name: &str) {
        self.retries.get_or_create(&Loop::named(name)).inc();
    }

    fn dropped(&self, name: &str) {
        self.dropped.get_or_create(&Loop::named(name)).inc();
    }

    fn lock_contended(&self, name: &str) {
        self.contended.get_or_create(&Loop::named(name)).inc();
    }

    fn watch_restarted(&self, name: &str) {
        self.restarts.get_or_create(&Loop::named(name)).inc();
    }

    fn panicked(&self, name: &str) {
        self.panics.get_or_create(&Loop::named(name)).inc();
    }
}

//! Metrics for Prometheus.

use std::borrow::Cow;
use std::time::Duration;

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

type Labels<const N: usize> = [(&'static str, Cow<'static, str>); N];
type Histograms<const N: usize> = Family<Labels<N>, Histogram, fn() -> Histogram>;

/// A [`Recorder`] that counts into a registry, for any number of loops: the label `loop` is their name.
///
/// Cheap to clone; clones count into the same metrics.
#[derive(Clone, Debug)]
pub struct LoopMetrics {
    queued: Family<Labels<1>, Counter>,
    dequeued: Family<Labels<1>, Counter>,
    queued_duration: Histograms<1>,
    list_duration: Histograms<2>,
    get_duration: Histograms<2>,
    handle_duration: Histograms<3>,
    depth: Family<Labels<1>, Gauge>,
    in_flight: Family<Labels<1>, Gauge>,
    retries: Family<Labels<1>, Counter>,
    dropped: Family<Labels<1>, Counter>,
    contended: Family<Labels<1>, Counter>,
    restarts: Family<Labels<1>, Counter>,
    panics: Family<Labels<1>, Counter>,
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

/// The label that all have.
fn of(name: &str) -> (&'static str, Cow<'static, str>) {
    ("loop", Cow::Owned(name.to_owned()))
}

fn success(outcome: CallOutcome) -> (&'static str, Cow<'static, str>) {
    ("success", Cow::Borrowed(outcome.as_str()))
}

impl Recorder for LoopMetrics {
    fn queue_queued(&self, name: &str, ids: u64) {
        self.queued.get_or_create(&[of(name)]).inc_by(ids);
    }

    fn queue_dequeued(&self, name: &str) {
        self.dequeued.get_or_create(&[of(name)]).inc();
    }

    fn queued_duration(&self, name: &str, took: Duration) {
        let histogram = self.queued_duration.get_or_create(&[of(name)]);
        histogram.observe(took.as_secs_f64());
    }

    fn list_duration(&self, name: &str, took: Duration, outcome: CallOutcome) {
        let labels = [of(name), success(outcome)];
        let histogram = self.list_duration.get_or_create(&labels);
        histogram.observe(took.as_secs_f64());
    }

    fn get_duration(&self, name: &str, took: Duration, outcome: CallOutcome) {
        let labels = [of(name), success(outcome)];
        let histogram = self.get_duration.get_or_create(&labels);
        histogram.observe(took.as_secs_f64());
    }

    fn handle_duration(&self, name: &str, took: Duration, kind: HandleKind, outcome: CallOutcome) {
        let kind = ("kind", Cow::Borrowed(kind.as_str()));
        let labels = [of(name), kind, success(outcome)];
        let histogram = self.handle_duration.get_or_create(&labels);
        histogram.observe(took.as_secs_f64());
    }

    fn queue_depth(&self, name: &str, ids: usize) {
        let gauge = self.depth.get_or_create(&[of(name)]);
        gauge.set(i64::try_from(ids).unwrap_or(i64::MAX));
    }

    fn in_flight(&self, name: &str, ids: usize) {
        let gauge = self.in_flight.get_or_create(&[of(name)]);
        gauge.set(i64::try_from(ids).unwrap_or(i64::MAX));
    }

    fn retried(&self, name: &str) {
        self.retries.get_or_create(&[of(name)]).inc();
    }

    fn dropped(&self, name: &str) {
        self.dropped.get_or_create(&[of(name)]).inc();
    }

    fn lock_contended(&self, name: &str) {
        self.contended.get_or_create(&[of(name)]).inc();
    }

    fn watch_restarted(&self, name: &str) {
        self.restarts.get_or_create(&[of(name)]).inc();
    }

    fn panicked(&self, name: &str) {
        self.panics.get_or_create(&[of(name)]).inc();
    }
}

//! Metrics for Prometheus.

use std::borrow::Cow;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry, Unit};

use super::{CallOutcome, Measurement};

/// From a millisecond, the wait in an idle queue, to five minutes, the default limit of a handler.
const BUCKETS: [f64; 15] = [
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
];

type Labels<const N: usize> = [(&'static str, Cow<'static, str>); N];
type Counters = Family<Labels<1>, Counter>;
type Gauges = Family<Labels<1>, Gauge>;
type Histograms<const N: usize> = Family<Labels<N>, Histogram, fn() -> Histogram>;

/// A [`Recorder`](super::Recorder) that counts into a registry, for any number of loops: the label `loop` is their name.
///
/// Cheap to clone; clones count into the same metrics.
#[derive(Clone, Debug)]
pub struct LoopMetrics {
    queued: Counters,
    dequeued: Counters,
    queued_duration: Histograms<1>,
    list_duration: Histograms<2>,
    get_duration: Histograms<2>,
    handle_duration: Histograms<3>,
    depth: Gauges,
    in_flight: Gauges,
    retries: Counters,
    dropped: Counters,
    contended: Counters,
    restarts: Counters,
    panics: Counters,
}

impl LoopMetrics {
    /// Registers the metrics of loops, all of which begin with `loop_`.
    ///
    /// Call it once for a registry and share the result. A second call registers a second set: harmless, but the output then has each
    /// name and help text twice.
    pub fn register(registry: &mut Registry) -> Self {
        Self {
            queued: plain(registry, "queue_queued", "Times an id became ready"),
            dequeued: plain(registry, "queue_dequeued", "Times an id was taken"),
            retries: plain(registry, "retries", "Failures that are retried"),
            dropped: plain(registry, "dropped", "Ids that failed too often"),
            contended: plain(registry, "lock_contended", "Locks that were busy"),
            restarts: plain(registry, "watch_restarts", "Watches opened again"),
            panics: plain(registry, "panics", "Panics that were caught"),
            queued_duration: timed(
                registry,
                "queued",
                "How long ids were ready before they were taken",
            ),
            list_duration: timed(registry, "listerwatcher_list", "How long lists took"),
            get_duration: timed(registry, "storage_get", "How long reading objects took"),
            handle_duration: timed(registry, "handle", "How long handling ids took"),
            depth: plain(registry, "queue_depth", "Ids that are ready to be handled"),
            in_flight: plain(registry, "in_flight", "Ids that are being handled"),
        }
    }

    pub(super) fn record(&self, name: &str, measured: Measurement) {
        let success = |outcome: CallOutcome| ("success", Cow::Borrowed(outcome.as_str()));
        match measured {
            Measurement::QueueQueued(ids) => add(&self.queued, name, ids),
            Measurement::QueueDequeued => add(&self.dequeued, name, 1),
            Measurement::QueuedDuration(took) => observe(&self.queued_duration, &[of(name)], took),
            Measurement::ListDuration(took, outcome) => {
                observe(&self.list_duration, &[of(name), success(outcome)], took);
            }
            Measurement::GetDuration(took, outcome) => {
                observe(&self.get_duration, &[of(name), success(outcome)], took);
            }
            Measurement::HandleDuration(took, kind, outcome) => {
                let kind = ("kind", Cow::Borrowed(kind.as_str()));
                let labels = [of(name), kind, success(outcome)];
                observe(&self.handle_duration, &labels, took);
            }
            Measurement::QueueDepth(ids) => set(&self.depth, name, ids),
            Measurement::InFlight(ids) => set(&self.in_flight, name, ids),
            Measurement::Retried => add(&self.retries, name, 1),
            Measurement::Dropped => add(&self.dropped, name, 1),
            Measurement::LockContended => add(&self.contended, name, 1),
            Measurement::WatchRestarted => add(&self.restarts, name, 1),
            Measurement::Panicked => add(&self.panics, name, 1),
        }
    }
}

fn plain<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(format!("loop_{name}"), help, metric.clone());
    metric
}

fn timed<const N: usize>(registry: &mut Registry, name: &str, help: &str) -> Histograms<N> {
    let metric = Histograms::new_with_constructor(|| Histogram::new(BUCKETS));
    let name = format!("loop_{name}_duration");
    registry.register_with_unit(name, help, Unit::Seconds, metric.clone());
    metric
}

/// The label that all have.
fn of(name: &str) -> (&'static str, Cow<'static, str>) {
    ("loop", Cow::Owned(name.to_owned()))
}

fn add(counters: &Counters, name: &str, by: u64) {
    counters.get_or_create(&[of(name)]).inc_by(by);
}

fn set(gauges: &Gauges, name: &str, ids: usize) {
    let ids = i64::try_from(ids).unwrap_or(i64::MAX);
    gauges.get_or_create(&[of(name)]).set(ids);
}

fn observe<const N: usize>(histograms: &Histograms<N>, labels: &Labels<N>, took: Duration) {
    let histogram = histograms.get_or_create(labels);
    histogram.observe(took.as_secs_f64());
}

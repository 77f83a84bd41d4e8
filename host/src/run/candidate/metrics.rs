//! Metrics of the candidate.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use super::results::Compared;

/// From 10 µs to 10 s, by four.
const BUCKETS: (f64, f64, u16) = (0.000_01, 4.0, 11);
/// The result of pods for which there was no time or no room.
const DROPPED: &str = "dropped";

/// Metrics of the candidate. They have the same series from the start on.
#[derive(Clone)]
pub(super) struct CandidateMetrics {
    pods: Family<ByResult, Counter>,
    duration: Histogram,
    cpu: Counter<f64>,
    loaded: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByResult {
    result: &'static str,
}

impl CandidateMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let (first, factor, count) = BUCKETS;
        let metrics = Self {
            pods: Family::default(),
            duration: Histogram::new(exponential_buckets(first, factor, count)),
            cpu: Counter::default(),
            loaded: Gauge::default(),
        };
        registry.register(
            "candidate_pods",
            "Pods that the candidate got too, by what it would have made of them",
            metrics.pods.clone(),
        );
        registry.register_with_unit(
            "candidate_duration",
            "How long a pod took in the candidate, at the lowest priority",
            Unit::Seconds,
            metrics.duration.clone(),
        );
        registry.register_with_unit(
            "candidate_cpu",
            "Time on processors of everything that is done with pods for the candidate, except for keeping a copy of them",
            Unit::Seconds,
            metrics.cpu.clone(),
        );
        registry.register(
            "candidate_loaded",
            "1 if the candidate is what its directory contains, 0 if that is missing or was rejected",
            metrics.loaded.clone(),
        );
        for result in Compared::ALL {
            metrics.of(result.as_str());
        }
        metrics.of(DROPPED);
        metrics
    }

    /// Counts a pod that was compared.
    pub(super) fn compared(&self, result: Compared, took: Duration) {
        self.of(result.as_str()).inc();
        self.duration.observe(took.as_secs_f64());
    }

    /// Counts the pods that were not compared.
    pub(super) fn dropped(&self) -> Counter {
        self.of(DROPPED)
    }

    /// Adds time on a processor.
    pub(super) fn worked(&self, cpu: Duration) {
        self.cpu.inc_by(cpu.as_secs_f64());
    }

    pub(super) fn is_loaded(&self, is_loaded: bool) {
        self.loaded.set(i64::from(is_loaded));
    }

    fn of(&self, result: &'static str) -> Counter {
        self.pods.get_or_create_owned(&ByResult { result })
    }
}

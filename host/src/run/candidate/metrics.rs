//! Metrics of the candidate.

use std::time::Duration;

use podloom_metrics::{By, Histograms, histogram, metrics};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::results::Compared;

/// From 10 µs to 10 s, by four.
const BUCKETS: Histograms = Histograms(0.000_01, 4.0, 11);
/// The result of pods for which there was no time or no room.
const DROPPED: &str = "dropped";

metrics! {
    /// Metrics of the candidate. They have the same series from the start on.
    pub(super) struct CandidateMetrics {
        pods: By<1> = "candidate_pods", "Pods that the candidate got too, by what it would have made of them", by_result();
        duration: Histogram = "candidate_duration" Seconds, "How long a pod took in the candidate, at the lowest priority", histogram(BUCKETS);
        cpu: Counter<f64> = "candidate_cpu" Seconds, "Time on processors of everything that is done with pods for the candidate, except for keeping a copy of them";
        loaded: Gauge = "candidate_loaded", "1 if the candidate is what its directory contains, 0 if that is missing or was rejected";
    }
}

fn by_result() -> By<1> {
    let results = Compared::ALL.into_iter().map(Compared::as_str);
    By::new(["result"]).from_zero(results.chain([DROPPED]).map(|result| [result]))
}

impl CandidateMetrics {
    /// Counts a pod that was compared.
    pub(super) fn compared(&self, result: Compared, took: Duration) {
        self.pods.of([result.as_str()]).inc();
        self.duration.observe(took.as_secs_f64());
    }

    /// Counts the pods that were not compared.
    pub(super) fn dropped(&self) -> Counter {
        self.pods.of([DROPPED]).clone()
    }

    /// Adds time on a processor.
    pub(super) fn worked(&self, cpu: Duration) {
        self.cpu.inc_by(cpu.as_secs_f64());
    }

    pub(super) fn is_loaded(&self, is_loaded: bool) {
        self.loaded.set(i64::from(is_loaded));
    }
}

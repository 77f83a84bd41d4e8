//! The duration of requests.

use std::time::Instant;

use podloom_metrics::{By, Histograms, metrics};
use prometheus_client::metrics::histogram::Histogram;

/// From a millisecond to about a minute, doubling.
const BUCKETS: Histograms = Histograms(0.001, 2.0, 17);

metrics! {
    /// Metrics of all clients; cheap to clone, registered once.
    pub struct OutboundMetrics {
        duration: By<2, Histogram, Histograms> = "external_request_duration" Seconds, "Duration of requests to external systems, failed and cancelled ones included", By::histograms(["system", "operation"], BUCKETS);
    }
}

impl OutboundMetrics {
    /// Starts the timer of a request; it is observed when the timer is dropped.
    pub(super) fn time(&self, system: &'static str, operation: &'static str) -> Timer {
        Timer {
            histogram: self.duration.of([system, operation]).clone(),
            begun: Instant::now(),
        }
    }
}

/// Observes its own lifetime when it is dropped.
pub(super) struct Timer {
    histogram: Histogram,
    begun: Instant,
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.histogram.observe(self.begun.elapsed().as_secs_f64());
    }
}
